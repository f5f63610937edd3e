// SPDX-License-Identifier: Apache-2.0
// The shared library consists of its layers; a CMake target still wants a source file.
