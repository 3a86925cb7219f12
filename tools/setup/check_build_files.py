"""Checks the BUILD and .bzl files named on stdin, one a line, for what buildifier would reorder.

Loads stand first, lists of labels are sorted as buildifier sorts them and name nothing twice, and no line
holds a tab.
"""

import ast
import sys
from pathlib import Path

SORTED_ATTRIBUTES = {"data", "deps", "hdrs", "srcs"}


def buildifier_key(label):
    """Files, then :local, then //of/this/workspace, then @others; a colon sorts as a dot."""
    phases = (":", "//", "@")
    phase = next((i + 1 for i, start in enumerate(phases) if label.startswith(start)), 0)
    return phase, label.replace(":", ".").split("."), label


def call_name(statement):
    """The function that a top-level statement calls, or ""."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""


def check_loads(path, tree):
    """Loads come before all but the file's docstring. In WORKSPACE a load needs what stands above it."""
    if path.name == "WORKSPACE":
        return
    others = False
    for statement in tree.body:
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if call_name(statement) != "load":
            others = others or not is_docstring
        elif others:
            yield statement.lineno, "load() after other statements"


def check_lists(tree, source):
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        for keyword in call.keywords:
            if keyword.arg not in SORTED_ATTRIBUTES or not isinstance(keyword.value, ast.List):
                continue
            # A comment may explain an order.
            if "#" in (ast.get_source_segment(source, keyword.value) or ""):
                continue
            labels = [item.value for item in keyword.value.elts if isinstance(item, ast.Constant)]
            if labels != sorted(labels, key=buildifier_key):
                yield keyword.value.lineno, f"{keyword.arg} not sorted"
            if len(labels) != len(set(labels)):
                yield keyword.value.lineno, f"{keyword.arg} names a label twice"


def check(path):
    """Yields (line, fault)."""
    source = path.read_text()
    for number, line in enumerate(source.splitlines(), 1):
        if "\t" in line:
            yield number, "a tab"
    # BUILD files and our .bzl files keep to the part of Starlark that is Python.
    tree = ast.parse(source)
    yield from check_loads(path, tree)
    yield from check_lists(tree, source)


def main():
    faults = 0
    for name in sys.stdin.read().split():
        for line, fault in check(Path(name)):
            print(f"{name}:{line}: {fault}")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
