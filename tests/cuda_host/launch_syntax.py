"""Rewrites what CUDA adds to the syntax of C++, so that g++ compiles a `.cu` or `.cuh`.

    kernel<T, 4><<<grid, block, 0, stream>>>(x);   ::scramjet::cuda_host::launch(kernel<T, 4>, grid, block, 0, stream)(x);
    __shared__ float sums[4][32];                  auto& sums = ::scramjet::cuda_host::shared<float[4][32]>([] {});
    extern __shared__ float room[];                auto* const room = ::scramjet::cuda_host::dynamic_shared<float>();
    #include "ops/elementwise_kernel.cuh"          #include "FOLDER/ops/elementwise_kernel.cuh.h"

Everything else stays, and every line keeps its number: `#line` names the file as it was.
"""

import argparse
import re
from pathlib import Path

NAMESPACE = "::scramjet::cuda_host::"
BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}


class SyntaxFault(Exception):
    pass


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def without_comments(source):
    """The source with blanks for comments and what quotes hold, place by place."""
    raw = r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'
    # A quote between digits separates them.
    plain = r"//[^\n]*|/\*.*?\*/|" + r'"(?:\\.|[^"\\\n])*"' + r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'"
    return re.sub(raw + "|" + plain, blank, source, flags=re.DOTALL)


def without_directives(code):
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", blank, code, flags=re.MULTILINE)


def line_of(source, place):
    return source.count("\n", 0, place) + 1


def before_space(code, place):
    while place > 0 and code[place - 1].isspace():
        place -= 1
    return place


def opening(code, place):
    """Where the bracket that closes before `place` opens."""
    depth = []
    for i in range(place - 1, -1, -1):
        if code[i] in BRACKETS and code[i - 1 : i + 1] != "->":
            # Within parentheses < and > compare.
            if code[i] != ">" or not depth or depth[-1] == "<":
                depth.append(BRACKETS[code[i]])
        elif depth and code[i] == depth[-1]:
            depth.pop()
            if not depth:
                return i
    raise SyntaxFault("a bracket is not opened")


def kernel_start(code, end):
    """Where the kernel's name that ends at `end` begins: a::b<T>, pointer, table[i], (expression)."""
    place = before_space(code, end)
    while True:
        while code[place - 1] in ")]>":
            place = before_space(code, opening(code, place))
        name = re.search(r"\w+$", code[:place])
        if name:
            place = name.start()
        joint = re.search(r"(::|->|\.)(\s*\btemplate)?\s*$", code[:place])
        if not joint:
            return place
        place = before_space(code, joint.start())
        # A leading :: has nothing before it.
        if not re.search(r"[\w>)\]]$", code[:place]) or re.search(r"\b(?:return|else|do)$", code[:place]):
            return joint.start()


def matching(code, start, close):
    """Where `close` stands after `start`, outside of brackets."""
    depth = 0
    for i in range(start, len(code)):
        if depth == 0 and code.startswith(close, i):
            return i
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}":
            depth -= 1
    raise SyntaxFault(f"no {close} follows")


def launches(source):
    """Yields (start, end, text) of what is replaced."""
    code = without_comments(source)
    for match in re.finditer("<<<", code):
        begin = match.start()
        try:
            end = matching(code, match.end(), ">>>")
            if not code[end + 3 :].lstrip().startswith("("):
                raise SyntaxFault("no arguments follow >>>")
            start = kernel_start(code, begin)
        except SyntaxFault as fault:
            raise SyntaxFault(f"line {line_of(source, begin)}: a launch: {fault}") from None
        yield start, start, NAMESPACE + "launch("
        yield begin, match.end(), ", "
        yield end, end + 3, ")"


def split_declarators(text):
    """At commas outside of brackets, those of template arguments too."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def shared_declaration(text):
    """The replacement of a declaration that has __shared__ among its words."""
    lines = text.count("\n")
    is_extern = re.search(r"\bextern\b", text)
    text = re.sub(r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)+", " ", text)
    text = re.sub(r"\b(?:extern|static|__shared__)\b", " ", text)
    first, *others = split_declarators(" ".join(text.split()))
    declaration = re.fullmatch(r"(.+?[\s&*>])\s*(\w+)\s*((?:\[.*\])?)", first.strip())
    if not declaration:
        raise SyntaxFault(f"a shared variable: {first.strip()!r} is not understood")
    base = declaration[1].strip()
    variables = [(base, declaration[2], declaration[3])]
    for other in others:
        declarator = re.fullmatch(r"\s*(\**)\s*(\w+)\s*((?:\[.*\])?)\s*", other)
        if not declarator:
            raise SyntaxFault(f"a shared variable: {other.strip()!r} is not understood")
        variables.append((base.rstrip("* ") + declarator[1], declarator[2], declarator[3]))
    result = []
    for kind, name, sizes in variables:
        if is_extern:
            if sizes.replace(" ", "") != "[]":
                raise SyntaxFault(f"a shared variable: {name!r} is extern, but no array of open size")
            result.append(f"auto* const {name} = {NAMESPACE}dynamic_shared<{kind}>()")
        else:
            result.append(f"auto& {name} = {NAMESPACE}shared<{kind}{sizes}>([] {{}})")
    return "; ".join(result) + "\n" * lines


def shared_variables(source):
    code = without_directives(without_comments(source))
    for match in re.finditer(r"\b__shared__\b", code):
        start = max(code.rfind(character, 0, match.start()) for character in ";{}") + 1
        start += len(code[start:]) - len(code[start:].lstrip())
        end = code.index(";", match.start())
        try:
            yield start, end, shared_declaration(code[start:end])
        except SyntaxFault as fault:
            raise SyntaxFault(f"line {line_of(source, match.start())}: {fault}") from None


def includes(source, folder):
    for match in re.finditer(r'^([ \t]*#[ \t]*include[ \t]*")([^"\n]*\.cuh)"', source, re.MULTILINE):
        yield match.start(2), match.end(2), f"{folder}/{match[2]}.h"


def rewrite(source, path, folder):
    """The text of `path`, whose .cuh files lie rewritten in `folder`."""
    changes = [*launches(source), *shared_variables(source), *includes(source, folder)]
    # What stands first in the text is changed last, so that the places stay those of the source.
    for start, end, text in sorted(changes, key=lambda change: change[:2], reverse=True):
        source = source[:start] + text + source[end:]
    return f'#line 1 "{path}"\n{source}'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--folder", required=True, help="where rewritten .cuh files are included from")
    arguments = parser.parse_args()
    try:
        text = rewrite(arguments.source.read_text(), arguments.source, arguments.folder)
    except SyntaxFault as fault:
        raise SystemExit(f"{arguments.source}: {fault}") from None
    arguments.output.write_text(text)


if __name__ == "__main__":
    main()
