#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House rules that no off-the-shelf linter knows: include arrows, size budgets, clean paths.

    lint_rules.py [FILE...]     checks these files, or every file that git would commit

Prints one `path:line: message` a finding and exits 1 when there is any.
"""

import ast
import fnmatch
import functools
import re
import subprocess
import sys
from pathlib import Path

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_KERNEL_LINES = 120

C_SUFFIXES = {".h", ".hpp", ".cc", ".c", ".cu", ".cuh"}
HEADER_SUFFIXES = {".h", ".hpp", ".cuh"}
# Data, generated text and texts of others, whose length says nothing.
LONG_FILES = [
    "LICENSE", "docs/*", "CHANGELOG.md", "bench/results/*", "tests/data/*", "tests/golden/*",
    "tests/fuzz/corpus/*",
]

_CODEC_BELOW = ["codec/*.h", "codec/plan/*", "format/*", "base/*", "cinch/*"]
_UPPER = ["codec/*.h", "codec/frame/*", "policy/*", "format/*", "base/*", "cinch/*"]

# What files under a folder may include, as patterns of the include path. "a/*" covers all below a,
# "a/*.h" only what lies in a itself. The longest folder that matches the file decides.
ARROWS = {
    "include": ["cinch/*"],
    "src/base": ["base/*", "cinch/*"],
    "src/format": ["format/*", "base/*", "cinch/*"],
    "src/codec": ["codec/*.h", "format/*", "base/*", "cinch/*"],
    "src/codec/plan": _CODEC_BELOW,
    "src/codec/reference": ["codec/reference/*", *_CODEC_BELOW],
    "src/codec/cpu": ["codec/cpu/*", *_CODEC_BELOW],
    "src/codec/gpu": ["codec/gpu/*", *_CODEC_BELOW],
    # Its kernels are built from the codec's parts.
    "src/codec/patch": ["codec/patch/*", "codec/gpu/warp/*", "codec/gpu/kernels/look_back.cuh",
                        *_CODEC_BELOW],
    "src/codec/frame": ["codec/frame/*", *_CODEC_BELOW],
    "src/tensors": ["tensors/*", "format/*", "base/*", "cinch/*"],
    "src/policy": ["policy/*", "codec/*.h", "base/*", "cinch/*"],
    "src/transfer": ["transfer/*", *_UPPER],
    "src/versions": ["versions/*", "transfer/*", *_UPPER],
    "src/collectives": ["collectives/*", *_UPPER],
    # The kernels' words on lanes and shared memory are the codec's.
    "src/collectives/fused": ["collectives/fused/*", "collectives/windows/*", "codec/gpu/warp/*",
                              "format/*", "base/*", "cinch/*"],
    "src/nccl": ["nccl/*", "collectives/*", "base/*", "cinch/*"],
    "cli": ["cli/*", "tensors/*", "cinch/*"],
    "bench": ["bench/*", "tensors/*", "cinch/*"],
    # Micro-benchmarks see the layer that they measure; what users measure goes through the C ABI.
    "bench/codec": ["bench/*", "codec/*", "format/*", "support/*", "tensors/*", "cinch/*"],
    "bench/transfer": ["bench/*", "support/*", "tensors/*", "cinch/*"],
    "bench/collectives": ["bench/*", "collectives/*", "nccl/*", "tensors/*", "cinch/*"],
    "examples": ["examples/*", "cinch/*"],
    "tests": ["*"],
}

# Third-party headers and the only places that may include them.
THIRD_PARTY = {
    "ucp/*": ["src/transfer/ucx/*"],
    "ucs/*": ["src/transfer/ucx/*"],
    "uct/*": ["src/transfer/ucx/*"],
    "openssl/*": ["src/transfer/*"],
    "hwy/*": ["src/codec/cpu/*"],
    "spdlog/*": ["src/base/log.cc"],
    "nlohmann/*": ["src/tensors/*", "cli/*", "bench/*", "tests/*"],
    "CLI/*": ["cli/*", "bench/*"],
    "gtest/*": ["tests/*"],
    "gmock/*": ["tests/*"],
    "benchmark/*": ["bench/*"],
}

ENVIRONMENT_READERS = ["src/base/config.cc", "tests/*"]

# Entries of the C ABI by their names: all other functions are in PascalCase. What they do they do in
# a Guarded call, or they call only what cannot throw: each other, and these.
ABI_ENTRY = re.compile(r"^(?:cinch_[a-z0-9_]+|p?nccl[A-Z]\w*)$")
GUARD = re.compile(r"\bGuarded\w*\s*(?:<[^;{}]*>)?\(")
CALL = re.compile(r"(?<![\w])([A-Za-z_]\w*)\s*\(")
NOEXCEPT = re.compile(r"\b(\w+)\s*\((?:[^()]|\([^()]*\))*\)\s*(?:const\s*)?noexcept\b")
CANNOT_THROW = {
    "if", "for", "while", "switch", "return", "sizeof", "static_cast", "reinterpret_cast", "defined",
    "strcmp", "strcasecmp", "memcpy", "memset", "load", "store",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\b|\benviron\b")
# Absolute paths of somebody's machine.
MACHINE_PATH = re.compile(r"(?<![\w.$})*~-])/(?:work|home|root|Users)/\w")
# Highway's files that are compiled once a target end in -inl.h and have a guard of their own.
FILE_NAME = re.compile(r"^[a-z0-9_]+(?:-inl)?(?:\.[a-z0-9_]+)*$")


def matches_any(path, patterns):
    """True when one of the patterns covers the path (see ARROWS for their meaning)."""
    for pattern in patterns:
        if fnmatch.fnmatchcase(path, pattern):
            if pattern.endswith("/*.h") and path.count("/") != pattern.count("/"):
                continue
            return True
    return False


def arrow_for(path):
    folders = [folder for folder in ARROWS if path.startswith(folder + "/")]
    return max(folders, key=len) if folders else None


def third_party_homes(target):
    for pattern, homes in THIRD_PARTY.items():
        if fnmatch.fnmatchcase(target, pattern):
            return homes
    return None


def check_includes(path, lines):
    folder = arrow_for(path)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, target = match.group(1) == '"', match.group(2)
        homes = third_party_homes(target)
        if homes and not matches_any(path, homes):
            yield number, f"<{target}> may only be included by {', '.join(homes)}"
        if homes or not quoted or folder is None:
            continue
        if target.startswith(("./", "../")) or "/../" in target:
            yield number, f'"{target}" is relative; name it from src/ or include/'
        elif "/" in target and not matches_any(target, ARROWS[folder]):
            allowed = ", ".join(ARROWS[folder])
            yield number, f'"{target}" goes against the arrows: {folder} may include {allowed}'


def strip_comments_and_literals(text):
    """Blanks comments, strings and preprocessor lines, keeping every newline in place."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
        r"(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
        re.DOTALL | re.MULTILINE,
    )
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def closing_brace(text, start):
    depth = 0
    for at in range(start, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
    return len(text) - 1


def scope_kind(head):
    """What the brace after `head` opens: namespace, type, function or data."""
    if re.search(r"\bnamespace\b(?![^;]*\))", head) or re.search(r"\bextern\s*$", head):
        return "namespace"
    without_templates = re.sub(r"\btemplate\s*<[^{}]*?>\s*(?=\w|\[)", " ", head)
    if re.search(r"(?<![=!<>])=(?!=)\s*$", head) or re.search(r"\benum\b", head):
        return "data"
    if re.search(r"\b(class|struct|union)\b[^()]*$", without_templates):
        return "type"
    if ")" in head:
        return "function"
    if re.search(r"\b(class|struct|union)\b", head):
        return "type"
    return "data"


def functions(text):
    """Yields (line, name, head, body) of each function, found by its braces."""
    at, head_start = 0, 0
    while at < len(text):
        character = text[at]
        if character in ";}":
            head_start = at + 1
        elif character == "{":
            head = text[head_start:at]
            kind = scope_kind(head)
            end = closing_brace(text, at)
            following = text[end + 1 :].lstrip()[:1]
            # A member initializer such as `: value_{1}, ...` is still part of the head.
            initializer = kind == "function" and following in (",", "{")
            if kind in ("function", "data"):
                if kind == "function" and not initializer:
                    name = re.findall(r"([~\w:]+)\s*\(", head)
                    line = text.count("\n", 0, at) + 1
                    yield line, name[0] if name else "?", head, text[at : end + 1]
                at = end
                if not initializer:
                    head_start = at + 1
            else:
                head_start = at + 1
        at += 1


def check_function_sizes(text):
    for line, name, head, body in functions(strip_comments_and_literals(text)):
        lines = body.count("\n") + 1
        kernel = "__global__" in head
        limit, kind = (MAX_KERNEL_LINES, "kernel") if kernel else (MAX_FUNCTION_LINES, "function")
        if lines > limit:
            yield line, f"{name}: {lines} lines, the budget of a {kind} is {limit}"


def noexcept_in(text):
    return set(NOEXCEPT.findall(strip_comments_and_literals(text)))


@functools.lru_cache(maxsize=None)
def noexcept_functions():
    """The names of what the project's headers declare noexcept."""
    root = Path(__file__).resolve().parent.parent
    return set().union(*(noexcept_in(header.read_text()) for header in root.glob("src/**/*.h")))


def check_abi_entries(text, cannot_throw):
    """Exceptions must not leave the library through a function that C calls."""
    for line, name, head, body in functions(strip_comments_and_literals(text)):
        if not ABI_ENTRY.match(name) or GUARD.search(body) or re.search(r"\bnoexcept\b", head):
            continue
        for called in CALL.findall(body):
            if called not in cannot_throw and not ABI_ENTRY.match(called):
                yield line, f"{name} calls {called}, which may throw into C: use Guarded"
                break


def check_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                message = f"{lines} lines, the budget of a function is {MAX_FUNCTION_LINES}"
                yield node.lineno, f"{node.name}: {message}"


def check_c_source(path, text, lines):
    yield from check_includes(path, lines)
    yield from check_function_sizes(text)
    if path.startswith("src/") and Path(path).suffix in {".cc", ".cu"}:
        yield from check_abi_entries(text, CANNOT_THROW | noexcept_functions() | noexcept_in(text))
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
        yield 1, "the first line must be the SPDX licence line"
    guarded = "#pragma once" in lines or path.endswith("-inl.h")
    if Path(path).suffix in HEADER_SUFFIXES and not guarded:
        yield 1, "the header has no #pragma once"
    if not FILE_NAME.match(Path(path).name):
        yield 1, "file names are snake_case"
    if not matches_any(path, ENVIRONMENT_READERS):
        code = strip_comments_and_literals(text).splitlines()
        for number, line in enumerate(code, 1):
            if ENVIRONMENT.search(line):
                yield number, "only src/base/config.cc reads the environment; add a row to its table"


def check_file(path, text):
    """Yields (line, message) for each finding in one file; `path` is relative to the root."""
    lines = text.splitlines()
    if len(lines) > MAX_FILE_LINES and not matches_any(path, LONG_FILES):
        yield len(lines), f"{len(lines)} lines, the budget of a file is {MAX_FILE_LINES}"
    for number, line in enumerate(lines, 1):
        if MACHINE_PATH.search(line):
            yield number, "names a path of one machine"
    if Path(path).suffix in C_SUFFIXES:
        yield from check_c_source(path, text, lines)
    if path.endswith(".py"):
        yield from check_python(text)


def check_registration(paths, read):
    """A test that its folder's CMakeLists.txt does not name never runs."""
    lists = {"tests/unit/": "tests/CMakeLists.txt", "tests/fuzz/fuzz_": "tests/fuzz/CMakeLists.txt"}
    for path in paths:
        for prefix, registry in lists.items():
            if path.startswith(prefix) and path.endswith(".cc"):
                if Path(path).name not in read(registry):
                    yield path, f"is not registered in {registry}"


def files_of_the_project(root):
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in listed.split("\0") if name and (root / name).is_file())


def main(arguments):
    root = Path(__file__).resolve().parent.parent
    paths = [str(Path(name).resolve().relative_to(root)) for name in arguments]
    findings = 0
    project = files_of_the_project(root)
    for path in paths or project:
        try:
            text = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for line, message in check_file(path, text):
            print(f"{path}:{line}: {message}")
            findings += 1
    if not arguments:
        for path, message in check_registration(project, lambda name: (root / name).read_text()):
            print(f"{path}:1: {message}")
            findings += 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
