"""What nvcc made of the operators' kernels: packs move in one instruction, and nothing spills.

A kernel whose loop over a pack is not unrolled, or whose arrays have an index that is known only at run time,
keeps them in local memory, a slow place; results stay right, so that no other test sees it.
"""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

ARCHITECTURES = {"sm_80", "sm_90", "sm_100"}

# The kernels that move packs of 16 bytes, from their template arguments: type and elements of a pack.
PACKED = (
    re.compile(r"\bnorm(?:_backward)?_kernel<(?P<type>\w+), \w+, \w+, (?P<pack>\d+)>"),
    re.compile(r"\bcontiguous_kernel<(?P<type>\w+), \d+, \d+, (?P<pack>\d+), "),
)
LOCAL_MEMORY = re.compile(r"\b(?:STL|LDL)\b")
PACK_LOADS = re.compile(r"\bLDG\S*\.(?:128|256)\b")
PACK_STORES = re.compile(r"\bSTG\S*\.(?:128|256)\b")


def cuobjdump():
    """The toolkit's, else the one that Triton brings along with torch."""
    beside_nvcc = Path(shutil.which("nvcc", path=os.environ["PATH"] + ":/usr/local/cuda/bin") or "nvcc")
    tool = beside_nvcc.resolve().with_name("cuobjdump")
    if tool.exists():
        return tool
    try:
        import triton
    except ImportError:
        return None
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    return tool if tool.exists() else None


def machine_code(objects):
    """Yields (architecture, kernel, its instructions) for the kernels of the object files."""
    for path in objects:
        command = [cuobjdump(), "-sass", path]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        text = subprocess.run(["c++filt"], input=text, check=True, capture_output=True, text=True).stdout
        architecture, kernel, instructions = "", "", []
        for line in text.splitlines():
            if match := re.match(r"\s*(?:code for|Function :) (.+)", line):
                if kernel:
                    yield architecture, kernel, instructions
                kernel, instructions = "", []
                if "Function :" in line:
                    kernel = match[1]
                else:
                    architecture = match[1]
            elif match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.+?)\s*;", line):
                instructions.append(match[1])
        if kernel:
            yield architecture, kernel, instructions


def faults(architecture, kernel, instructions):
    """Yields what is wrong with a kernel, in words."""
    name = f"{architecture}: {kernel.split('(long')[0]}"
    local = [instruction for instruction in instructions if LOCAL_MEMORY.search(instruction)]
    if local:
        yield f"{name} has {len(local)} accesses of local memory: {local[0]}"
    packed = next((match for pattern in PACKED if (match := pattern.search(kernel))), None)
    if packed and packed["pack"] != "1":
        for what, pattern in (("loads", PACK_LOADS), ("stores", PACK_STORES)):
            if not any(pattern.search(instruction) for instruction in instructions):
                yield f"{name} has no {what} of 16 bytes"


class KernelTest(unittest.TestCase):
    def test_packs_move_at_once_and_nothing_spills(self):
        if not cuobjdump():
            self.skipTest("no cuobjdump: neither the CUDA toolkit nor Triton has it")
        objects = sorted(Path("ops").glob("*/cuda_kernel_objects/*.o"))
        self.assertTrue(objects, "no object files: are they in data?")
        seen, packed, found = set(), set(), []
        for code in machine_code(objects):
            seen.add(code[0])
            packed.update(i for i, pattern in enumerate(PACKED) if pattern.search(code[1]))
            found += faults(*code)
        self.assertFalse(found, "\n".join(["", *found]))
        self.assertEqual(seen & ARCHITECTURES, seen)
        self.assertGreater(len(seen), 0)
        self.assertEqual(packed, set(range(len(PACKED))), "a pattern of PACKED fits no kernel")


class FaultsTest(unittest.TestCase):
    PACKED_KERNEL = "void f::contiguous_kernel<float, 1, 1, 4, f::Op>(f::ElementwiseLaunch)"

    def test_spills_are_faults(self):
        self.assertTrue(list(faults("sm_80", "kernel", ["STL.64 [R1], R8"])))
        self.assertTrue(list(faults("sm_80", "kernel", ["@P0 LDL R4, [R1+0xc]"])))
        self.assertFalse(list(faults("sm_80", "kernel", ["LDG.E R4, [R2]", "STG.E [R2], R4"])))

    def test_packs_that_move_in_parts_are_faults(self):
        whole = ["LDG.E.128 R4, [R2]", "STG.E.128 [R2], R4"]
        self.assertFalse(list(faults("sm_80", self.PACKED_KERNEL, whole)))
        self.assertIn("no loads", "".join(faults("sm_80", self.PACKED_KERNEL, ["LDG.E R4", whole[1]])))
        self.assertIn("no stores", "".join(faults("sm_80", self.PACKED_KERNEL, [whole[0], "STG.E [R2]"])))
        self.assertFalse(list(faults("sm_80", self.PACKED_KERNEL.replace(", 4,", ", 1,"), [])))


if __name__ == "__main__":
    unittest.main()
