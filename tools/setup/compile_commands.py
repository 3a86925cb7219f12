"""Turns Bazel's CppCompile actions (stdin, `bazel aquery --output=jsonproto`) into compile_commands.json.

Run at the root of the workspace, with Bazel's output base as the argument.
"""

import json
import os
import sys

# -fno-canonical-system-headers: clang does not know it. -Werror: clang warns of more than g++ does.
LEFT_OUT = {"-fno-canonical-system-headers", "-Werror"}


def command_of(action, output_base):
    """One entry of compile_commands.json, or None for what compiles no source of ours."""
    arguments = action.get("arguments", [])
    if "-c" not in arguments:
        return None
    source = arguments[arguments.index("-c") + 1]
    if source.startswith("external/"):
        return None
    # Bazel compiles in a folder of its own. Seen from the workspace, where an editor opens the sources,
    # only the external repositories lie elsewhere.
    arguments = [
        os.path.join(output_base, argument) if argument.startswith("external/") else argument
        for argument in arguments
        if argument not in LEFT_OUT
    ]
    return {"file": source, "directory": os.getcwd(), "arguments": arguments}


def main():
    output_base = sys.argv[1]
    entries = [command_of(action, output_base) for action in json.load(sys.stdin).get("actions", [])]
    by_file = {entry["file"]: entry for entry in entries if entry}
    json.dump(sorted(by_file.values(), key=lambda entry: entry["file"]), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
