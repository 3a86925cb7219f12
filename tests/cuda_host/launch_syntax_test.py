"""What is rewritten, and that nothing else is."""

import unittest

from tests.cuda_host import launch_syntax

LAUNCH = "::scramjet::cuda_host::launch("
SHARED = "::scramjet::cuda_host::shared<"


def rewritten(source):
    line, text = launch_syntax.rewrite(source, "a.cu", "folder").split("\n", 1)
    assert line == '#line 1 "a.cu"', line
    return text


class LaunchTest(unittest.TestCase):
    def check(self, source, kernel, configuration, rest="(x);", before=""):
        self.assertEqual(rewritten(source), f"{before}{LAUNCH}{kernel}, {configuration}){rest}")

    def test_the_configuration_becomes_arguments(self):
        self.check("kernel<<<1, 2>>>(x);", "kernel", "1, 2")
        self.check("kernel<<<dim3(1, 2), 3, 4, stream>>>(x);", "kernel", "dim3(1, 2), 3, 4, stream")
        self.check("kernel <<< 1, 2 >>> (x);", "kernel ", " 1, 2 ", " (x);")

    def test_any_kernel_expression_is_taken_whole(self):
        for kernel in (
            "::a::b::kernel",
            "kernel<T, 4>",
            "a::Family<T>::kernel<std::array<int, 3>, (2 > 1)>",
            "table[i + 1]",
            "object.kernel",
            "pointer->kernel",
            "this->template kernel<T>",
            "(wide ? kernel<4> : kernel<1>)",
            "choose<T>(n)",
        ):
            self.check(f"{kernel}<<<1, 2>>>(x);", kernel, "1, 2")

    def test_what_stands_before_stays_outside(self):
        for before in ("if (n > 0) ", "else ", "return ", "a; ", "{ ", "return ::scramjet::x, "):
            self.check(f"{before}kernel<T><<<1, 2>>>(x);", "kernel<T>", "1, 2", before=before)
        for before in ("return ", "else "):
            self.check(f"{before}::k<<<1, 2>>>(x);", "::k", "1, 2", before=before)

    def test_lines_keep_their_numbers(self):
        source = "a\nkernel<T>\n    <<<grid,\n       block>>>(x);\n__shared__ int\n  n;\nb\n"
        self.assertEqual(rewritten(source).count("\n"), source.count("\n"))

    def test_comments_and_strings_stay(self):
        for source in ("// k<<<1, 2>>>(x)\n", "/* k<<<1, 2>>>(x) */", 'f("k<<<1, 2>>>(x)");', "1'000 << 2;"):
            self.assertEqual(rewritten(source), source)
        source = 'R"(k<<<1>>>(x))"'
        self.assertEqual(rewritten(source), source)

    def test_the_launch_of_a_macro_is_found(self):
        self.assertIn(LAUNCH, rewritten("#define GO(k) k<<<1, 2>>>(x)\n"))

    def test_faults_name_the_line(self):
        for source, fault in (("\nk<<<1, 2;", "line 2.*no >>>"), ("k<<<1, 2>>>;", "line 1.*no arguments")):
            with self.assertRaisesRegex(launch_syntax.SyntaxFault, fault):
                rewritten(source)


class SharedTest(unittest.TestCase):
    def test_variables_become_references(self):
        for source, kind in (
            ("__shared__ float x;", "float"),
            ("__shared__ Number x[kSums][kMax / kWarp];", "Number[kSums][kMax / kWarp]"),
            ("static __shared__ float* x[2];", "float*[2]"),
            ("__shared__ __align__(16) unsigned char x[64];", "unsigned char[64]"),
            ("__shared__ alignas(sizeof(float4)) char x[64];", "char[64]"),
            ("__shared__ typename Sum<T, 128>::Room x;", "typename Sum<T, 128>::Room"),
            ("__shared__ std::pair<int, int> x[f(1, 2)];", "std::pair<int, int>[f(1, 2)]"),
        ):
            self.assertEqual(rewritten(source), f"auto& x = {SHARED}{kind}>([] {{}});")

    def test_a_declaration_may_have_several(self):
        self.assertEqual(
            rewritten("{ __shared__ float a[32], b; }"),
            f"{{ auto& a = {SHARED}float[32]>([] {{}}); auto& b = {SHARED}float>([] {{}}); }}",
        )

    def test_dynamic_memory_becomes_a_pointer(self):
        self.assertEqual(
            rewritten("extern __shared__ float x[];"),
            "auto* const x = ::scramjet::cuda_host::dynamic_shared<float>();",
        )

    def test_faults_name_the_line(self):
        for source in ("\n__shared__ float;", "\nextern __shared__ float x;"):
            with self.assertRaisesRegex(launch_syntax.SyntaxFault, "line 2: a shared variable"):
                rewritten(source)


class IncludeTest(unittest.TestCase):
    def test_cuda_headers_are_those_of_the_folder(self):
        self.assertEqual(rewritten('#include "ops/a.cuh"\n'), '#include "folder/ops/a.cuh.h"\n')
        for source in ('#include "ops/a.h"\n', "#include <cuda_runtime.h>\n"):
            self.assertEqual(rewritten(source), source)


if __name__ == "__main__":
    unittest.main()
