// SPDX-License-Identifier: Apache-2.0
// Jumps to the real library's functions without knowing their parameters. The first call of each
// looks the function up; all argument registers survive that.
#if !defined(__x86_64__)
#error "the trampolines are written for x86-64"
#endif

.macro trampoline name
  .section .rodata
.Ltext_\name:
  .asciz "\name"
  .data
  .balign 8
.Lslot_\name:
  .quad 0
  .text
  .globl \name
  .type \name, @function
  .balign 16
\name:
  .cfi_startproc
  endbr64
  movq .Lslot_\name(%rip), %r11
  testq %r11, %r11
  jz 1f
  jmp *%r11
1:
  leaq .Lslot_\name(%rip), %r11
  leaq .Ltext_\name(%rip), %r10
  jmp cinch_interposer_bind
  .cfi_endproc
  .size \name, . - \name
.endm

.macro settling_trampoline name, binder
  .section .rodata
.Ltext_\name:
  .asciz "\name"
  .data
  .balign 8
.Lslot_\name:
  .quad 0
  .text
  .globl \name
  .type \name, @function
  .balign 16
\name:
  .cfi_startproc
  endbr64
  leaq .Lslot_\name(%rip), %r11
  leaq .Ltext_\name(%rip), %r10
  jmp \binder
  .cfi_endproc
  .size \name, . - \name
.endm


#define FORWARD(name)   \
  trampoline nccl##name; \
  trampoline pnccl##name;
#define SETTLE(name)                                           \
  settling_trampoline nccl##name, cinch_interposer_bind_settled; \
  trampoline pnccl##name;
#define SETTLE_ALL(name)                                           \
  settling_trampoline nccl##name, cinch_interposer_bind_settled_all; \
  trampoline pnccl##name;
#define INTERCEPT(name) trampoline pnccl##name;
#include "nccl_names.inc"
// A symbol of the library that has no public twin.
  trampoline ncclResetDebugInitInternal

// r11: where the address goes, r10: the name. Calls the C function with both and the first argument,
// and jumps to what it returns.
.macro binder label, function
  .text
  .globl \label
  .hidden \label
  .type \label, @function
\label:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  andq $-16, %rsp
  subq $192, %rsp
  movq %rdi, 0(%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movq %rax, 48(%rsp)
  movaps %xmm0, 64(%rsp)
  movaps %xmm1, 80(%rsp)
  movaps %xmm2, 96(%rsp)
  movaps %xmm3, 112(%rsp)
  movaps %xmm4, 128(%rsp)
  movaps %xmm5, 144(%rsp)
  movaps %xmm6, 160(%rsp)
  movaps %xmm7, 176(%rsp)
  movq %rdi, %rdx
  movq %r11, %rdi
  movq %r10, %rsi
  call \function
  movq %rax, %r11
  movq 0(%rsp), %rdi
  movq 8(%rsp), %rsi
  movq 16(%rsp), %rdx
  movq 24(%rsp), %rcx
  movq 32(%rsp), %r8
  movq 40(%rsp), %r9
  movq 48(%rsp), %rax
  movaps 64(%rsp), %xmm0
  movaps 80(%rsp), %xmm1
  movaps 96(%rsp), %xmm2
  movaps 112(%rsp), %xmm3
  movaps 128(%rsp), %xmm4
  movaps 144(%rsp), %xmm5
  movaps 160(%rsp), %xmm6
  movaps 176(%rsp), %xmm7
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  jmp *%r11
  .cfi_endproc
  .size \label, . - \label
.endm

  binder cinch_interposer_bind, cinch_interposer_find
  binder cinch_interposer_bind_settled, cinch_interposer_settle
  binder cinch_interposer_bind_settled_all, cinch_interposer_settle_all

  .section .note.GNU-stack, "", @progbits
