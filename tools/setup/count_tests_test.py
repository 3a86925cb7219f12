import json
import tempfile
import unittest
from pathlib import Path

from tools.setup import count_tests

GTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" disabled="1" errors="0" name="AllTests"><testsuite name="Suite">
<testcase name="Passes" status="run" result="completed" classname="Suite"/>
<testcase name="Fails" status="run" result="completed" classname="Suite"><failure message="x"/></testcase>
<testcase name="Skips" status="run" result="skipped" classname="Suite"><skipped message="no GPU"/></testcase>
<testcase name="DISABLED_Is" status="notrun" result="suppressed" classname="Suite"/>
</testsuite></testsuites>"""

STAND_IN = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="a" tests="1" failures="0" errors="0">
<testcase name="a" status="run" duration="1" time="1"></testcase>
</testsuite></testsuites>"""

UNITTEST = """ss.
----------------------------------------------------------------------
Ran 7 tests in 0.003s

FAILED (failures=1, errors=2, skipped=2)
"""


class CountTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.events = []

    def add(self, label, status=None, **files):
        """A test target with what it wrote; without a status Bazel never ran it."""
        configured = {"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": "cc_test rule"}}
        self.events.append(configured)
        if not status:
            return
        outputs = []
        for name, text in files.items():
            path = self.folder / f"{len(self.events)} {name}"
            path.write_text(text)
            outputs.append({"name": f"test.{name}", "uri": path.as_uri()})
        self.events += [
            {"id": {"testResult": {"label": label}}, "testResult": {"testActionOutput": outputs}},
            {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}},
        ]

    def count(self):
        total, failures = count_tests.count(json.dumps(event) for event in self.events)
        return (total["passed"], total["failed"], total["skipped"]), failures

    def test_googletest_counts_by_case(self):
        self.add("//a", "FAILED", xml=GTEST)
        self.assertEqual(self.count(), ((1, 1, 2), ["//a: FAILED"]))

    def test_shards_add_up(self):
        self.add("//a", "PASSED", log=UNITTEST.replace("FAILED (failures=1, errors=2, skipped=2)", "OK"))
        second = json.loads(json.dumps(self.events[1]))
        second["id"]["testResult"]["shard"] = 2
        self.events.insert(2, second)
        self.assertEqual(self.count(), ((14, 0, 0), []))

    def test_unittest_counts_by_case(self):
        self.add("//a", "FAILED", xml=STAND_IN, log=UNITTEST)
        self.assertEqual(self.count(), ((2, 3, 2), ["//a: FAILED"]))

    def test_another_target_counts_as_one(self):
        self.add("//a", "PASSED", xml=STAND_IN, log="fine")
        self.assertEqual(self.count(), ((1, 0, 0), []))

    def test_a_crash_without_a_failed_case_counts(self):
        self.add("//a", "FAILED", xml=STAND_IN, log="Segmentation fault")
        self.add("//b", "TIMEOUT")
        self.assertEqual(self.count(), ((0, 2, 0), ["//a: FAILED", "//b: TIMEOUT"]))

    def test_what_was_not_built_counts(self):
        self.add("//a")
        self.assertEqual(self.count(), ((0, 1, 0), ["//a: not built or not run"]))


if __name__ == "__main__":
    unittest.main()
