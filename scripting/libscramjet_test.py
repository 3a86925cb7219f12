"""libscramjet.so alone is enough beside torch: what it loads, and what it shows to the program."""

import pathlib
import re
import subprocess
import unittest

LIBRARY = pathlib.Path("scripting/libscramjet.so")


class LibraryTest(unittest.TestCase):
    def test_it_needs_torch_and_the_system_only(self):
        dynamic = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*?)\.so", dynamic)
        self.assertIn("libtorch_cpu", needed)
        beside_torch = {"libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64", "libdl", "libpthread", "librt"}
        torch_brings = {"libtorch", "libtorch_cpu", "libtorch_cuda", "libc10", "libc10_cuda", "libcudart", "libgomp"}
        self.assertLessEqual(set(needed), beside_torch | torch_brings)

    def test_its_llvm_does_not_meet_the_programs(self):
        symbols = subprocess.run(
            ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
        ).stdout
        self.assertIn("scramjet", symbols)
        self.assertNotIn("llvm", symbols)
        self.assertNotIn("LLVM", symbols)


if __name__ == "__main__":
    unittest.main()
