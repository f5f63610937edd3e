// SPDX-License-Identifier: Apache-2.0
/// @file export.h
/// Linkage and attributes of the C ABI.
#pragma once

/** Marks a symbol of the C ABI: everything else stays inside libcinch.so. */
#define CINCH_API __attribute__((visibility("default")))

/** On a type: C++ callers are warned when they drop a returned value of it. */
#ifdef __cplusplus
#define CINCH_NODISCARD [[nodiscard]]
#else
#define CINCH_NODISCARD
#endif
