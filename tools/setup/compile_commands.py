"""Turns Bazel's CppCompile actions (stdin, `bazel aquery --output=jsonproto`) into compile_commands.json."""

import json
import os
import sys


def command_of(action, directory):
    """One entry of compile_commands.json, or None for what compiles no source of ours."""
    arguments = action.get("arguments", [])
    if "-c" not in arguments:
        return None
    source = arguments[arguments.index("-c") + 1]
    if source.startswith("external/"):
        return None
    # Flags of g++ that clang does not know.
    known = [argument for argument in arguments if argument != "-fno-canonical-system-headers"]
    # Clang warns of more than the g++ that -Werror is meant for.
    known = [argument for argument in known if argument != "-Werror"]
    return {"file": source, "directory": directory, "arguments": known}


def main():
    # The workspace itself: its `external` link (made below) and `bazel-out` give the paths Bazel uses.
    directory = os.getcwd()
    entries = (command_of(action, directory) for action in json.load(sys.stdin).get("actions", []))
    by_file = {entry["file"]: entry for entry in entries if entry}
    json.dump(sorted(by_file.values(), key=lambda entry: entry["file"]), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
