#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/lint_rules.py."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True
import lint_rules  # noqa: E402

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


def messages(path, text):
    return [message for _, message in lint_rules.check_file(path, text)]


def source(body):
    return LICENCE + body


class Arrows(unittest.TestCase):
    def check(self, path, include, allowed):
        found = messages(path, source(f"#include {include}\n"))
        self.assertEqual(found == [], allowed, f"{path} includes {include}: {found}")

    def test_quoted_includes(self):
        for path, include, allowed in [
            ("src/base/a.cc", '"base/log.h"', True),
            ("src/base/a.cc", '"format/layout.h"', False),
            ("src/format/a.cc", '"base/status.h"', True),
            ("src/format/a.cc", '"codec/block_codec.h"', False),
            ("src/codec/cpu/a.cc", '"codec/block_codec.h"', True),
            ("src/codec/cpu/a.cc", '"codec/plan/codebook.h"', True),
            ("src/codec/cpu/a.cc", '"codec/reference/reference.h"', False),
            ("src/codec/reference/a.cc", '"codec/cpu/cpu.h"', False),
            ("src/codec/frame/a.cc", '"codec/cpu/cpu.h"', False),
            ("src/policy/a.cc", '"codec/block_codec.h"', True),
            ("src/policy/a.cc", '"codec/cpu/cpu.h"', False),
            ("src/transfer/a.cc", '"policy/cost_model.h"', True),
            ("src/transfer/a.cc", '"tensors/generators.h"', False),
            ("src/codec/cpu/a.cc", '"transfer/engine.h"', False),
            ("cli/a.cc", '"cinch/codec.h"', True),
            ("cli/a.cc", '"tensors/safetensors.h"', True),
            ("cli/a.cc", '"base/log.h"', False),
            ("bench/a.cc", '"codec/cpu/cpu.h"', False),
            ("examples/a.c", '"tensors/safetensors.h"', False),
            ("tests/unit/a.cc", '"codec/cpu/cpu.h"', True),
            ("src/base/a.cc", '"../format/layout.h"', False),
            ("cli/a.cc", '"options.h"', True),
        ]:
            self.check(path, include, allowed)

    def test_third_party_includes(self):
        for path, include, allowed in [
            ("src/transfer/ucx/a.cc", "<ucp/api/ucp.h>", True),
            ("src/transfer/a.cc", "<ucp/api/ucp.h>", False),
            ("src/codec/cpu/a.cc", "<hwy/highway.h>", True),
            ("src/codec/cpu/a.cc", '"hwy/highway.h"', True),
            ("src/format/a.cc", "<hwy/highway.h>", False),
            ("src/format/a.cc", '"hwy/highway.h"', False),
            ("src/base/log.cc", "<spdlog/spdlog.h>", True),
            ("src/base/a.cc", "<spdlog/spdlog.h>", False),
            ("src/base/a.cc", "<gtest/gtest.h>", False),
            ("src/base/a.cc", "<vector>", True),
        ]:
            self.check(path, include, allowed)


class AbiEntries(unittest.TestCase):
    def found(self, body, path="src/base/a.cc"):
        return [message for message in messages(path, source(body)) if "may throw into C" in message]

    def test_what_may_throw_needs_a_guard(self):
        call = "return Make();"
        for head in ("cinch_status cinch_make(void)", 'extern "C" cinch_status cinch_make(int a,\n  int b)',
                     "CINCH_NCCL_API NcclResult ncclAllGather(const void* send)"):
            self.assertEqual(len(self.found(f"{head} {{ {call} }}\n")), 1, head)
            self.assertEqual(self.found(f"{head} {{ return Guarded([&] {{ {call} }}); }}\n"), [], head)
        self.assertEqual(len(self.found(f'extern "C" {{\nvoid cinch_free(void) {{ Free(); }}\n}}\n')), 1)
        self.assertEqual(len(self.found("cinch_status cinch_make(void) try { Make(); } catch (int) {}\n")), 1)

    def test_what_cannot_throw_needs_none(self):
        for body in ("{ return 1; }", "{ delete handle; }", "{ return cinch_other(a); }",
                     "{ return GuardedOr(0, [] { return Make(); }); }",
                     "{ return strcmp(a, b) == 0 ? sizeof(int) : 0; }"):
            self.assertEqual(self.found(f"int cinch_one(void) {body}\n"), [], body)
        self.assertEqual(self.found("int Find(int a) noexcept { return a; }\n"
                                    "int cinch_one(void) { return Find(1); }\n"), [])

    def test_only_entries_of_the_library(self):
        self.assertEqual(self.found("Status Make() { return Other(); }\n"), [])
        self.assertEqual(self.found("int cinch_one(void) { return Make(); }\n", "cli/a.cc"), [])


class Sizes(unittest.TestCase):
    def test_file_length(self):
        self.assertEqual(messages("src/base/a.cc", source("\n" * 499)), [])
        self.assertEqual(len(messages("src/base/a.cc", source("\n" * 500))), 1)
        self.assertEqual(messages("docs/a.md", "\n" * 5000), [])

    def function(self, head, body_lines):
        return source(f"namespace cinch {{\n{head} {{\n" + "  f();\n" * (body_lines - 2) + "}\n}\n")

    def test_function_length(self):
        for head in [
            "void Run(int a)",
            "int Class::Run() const noexcept",
            "Class::Class(int a) : a_(a), b_{2}, c_{f(3)}",
            "template <typename T, class U>\nauto Run(T t) -> U",
            "TEST(Suite, Name)",
            'extern "C" int CinchRun(struct cinch_thing* thing)',
            "Status Find(const struct stat& found)",
        ]:
            self.assertEqual(messages("src/base/a.cc", self.function(head, 60)), [], head)
            found = messages("src/base/a.cc", self.function(head, 61))
            self.assertEqual(len(found), 1, head)
            self.assertIn("61 lines", found[0])

    def test_kernels_have_their_own_budget(self):
        head = "__global__ void __launch_bounds__(256) Encode(int a)"
        self.assertEqual(messages("src/codec/gpu/a.cu", self.function(head, 120)), [])
        self.assertEqual(len(messages("src/codec/gpu/a.cu", self.function(head, 121))), 1)

    def test_methods_in_classes_count_and_classes_and_tables_do_not(self):
        members = "  int Get() const { return 1; }\n" * 80
        self.assertEqual(messages("src/base/a.cc", source(f"class A : public B<int> {{\n{members}}};\n")), [])
        table = "constexpr Row kRows[] = {\n" + '    {"a", [](int x) { return x; }},\n' * 80 + "};\n"
        self.assertEqual(messages("src/base/a.cc", source(table)), [])
        long_method = "struct A {\n  void Run() {\n" + "f();\n" * 60 + "  }\n};\n"
        self.assertEqual(len(messages("src/base/a.cc", source(long_method))), 1)

    def test_braces_in_text_do_not_count(self):
        body = 'void A() {\n  f("{{{");  // {{{\n  g(\'{\'); /* {{ */\n  h(R"x({{)x"); i(1\'000);\n}\n'
        self.assertEqual(messages("src/base/a.cc", source(body + "void B() {\n" + "f();\n" * 58 + "}\n")), [])

    def test_python_functions(self):
        self.assertEqual(messages("scripts/a.py", "def f():\n" + "    g()\n" * 59), [])
        self.assertEqual(len(messages("scripts/a.py", "def f():\n" + "    g()\n" * 60)), 1)


class Habits(unittest.TestCase):
    def test_licence_pragma_and_name(self):
        self.assertEqual(len(messages("src/base/a.cc", "int a;\n")), 1)
        self.assertEqual(len(messages("src/base/a.h", LICENCE)), 1)
        self.assertEqual(messages("src/base/a.h", LICENCE + "#pragma once\n"), [])
        self.assertEqual(messages("src/codec/cpu/a-inl.h", LICENCE), [])
        self.assertEqual(len(messages("src/base/BadName.cc", LICENCE)), 1)

    def test_environment(self):
        read = source('const char* a = std::getenv("CINCH_LOG");\n')
        self.assertEqual(len(messages("src/codec/cpu/a.cc", read)), 1)
        self.assertEqual(messages("src/base/config.cc", read), [])
        self.assertEqual(messages("src/codec/cpu/a.cc", source("// not getenv\n")), [])

    def test_machine_paths(self):
        for path in ["wo" + "rk/main", "ho" + "me/someone/x", "ro" + "ot/x"]:
            self.assertEqual(len(messages("docs/a.md", f"see /{path}\n")), 1, path)
        self.assertEqual(messages("docs/a.md", "see build/work/x, https://a.org/home/x and /usr/lib\n"), [])

    def test_registration(self):
        registered = lambda registry: "unit/a_test.cc" if registry == "tests/CMakeLists.txt" else ""
        check = lambda path: list(lint_rules.check_registration([path], registered))
        self.assertEqual(check("tests/unit/a_test.cc"), [])
        self.assertEqual(len(check("tests/unit/b_test.cc")), 1)
        self.assertEqual(len(check("tests/fuzz/fuzz_a.cc")), 1)
        self.assertEqual(check("tests/support/helper.cc"), [])


if __name__ == "__main__":
    unittest.main()
