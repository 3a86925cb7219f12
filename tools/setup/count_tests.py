"""Counts what `bazel test` did, from its build events: the last line is `N passed, N failed[, N skipped]`.

A GoogleTest or unittest target counts by its cases, any other target as one; a test that could not be
built, crashed or ran out of time counts as failed.
"""

import argparse
import json
import re
import urllib.parse
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


def gtest_counts(xml):
    """(passed, failed, skipped) of a test.xml that GoogleTest wrote, or None."""
    try:
        cases = ElementTree.parse(xml).getroot().findall(".//testcase")
    except (OSError, ElementTree.ParseError):
        return None
    # GoogleTest alone writes `result`; Bazel's own stand-in has one case, named after the target.
    if not cases or any("result" not in case.attrib for case in cases):
        return None
    failed = sum(case.find("failure") is not None for case in cases)
    skipped = sum(
        case.get("result") == "skipped" or case.get("status") == "notrun" for case in cases
    )
    return len(cases) - failed - skipped, failed, skipped


def unittest_counts(log):
    """(passed, failed, skipped) of the last `Ran N tests` that unittest printed, or None."""
    try:
        text = Path(log).read_text(errors="replace")
    except OSError:
        return None
    runs = re.findall(r"^Ran (\d+) tests? in .*\n+(?:OK|FAILED)(?: \((.*)\))?", text, re.MULTILINE)
    if not runs:
        return None
    total, details = runs[-1]
    number = {
        word: int(count) for word, count in re.findall(r"([a-z ]+)=(\d+)", details.replace(", ", "\n"))
    }
    failed = sum(number.get(word, 0) for word in ("failures", "errors", "unexpected successes"))
    skipped = number.get("skipped", 0)
    return int(total) - failed - skipped, failed, skipped


def shard_counts(outputs):
    """(passed, failed, skipped) of the cases that one run wrote to its files."""
    counts = gtest_counts(outputs.get("test.xml", "")) or unittest_counts(outputs.get("test.log", ""))
    return counts or (0, 0, 0)


def count(events):
    """The Counter of passed, failed and skipped, and the labels that failed, of the lines `events`."""
    tests, results = {}, {}
    for line in events:
        event = json.loads(line)
        identity = event["id"]
        if "targetConfigured" in identity and "test" in event.get("configured", {}).get("targetKind", ""):
            tests.setdefault(identity["targetConfigured"]["label"], "NO_STATUS")
        elif "testResult" in identity and "testResult" in event:
            files = event["testResult"].get("testActionOutput", [])
            result = identity["testResult"]
            results.setdefault(result["label"], {})[result.get("shard", 1)] = {
                file["name"]: urllib.parse.unquote(urllib.parse.urlparse(file["uri"]).path)
                for file in files
                if "uri" in file
            }
        elif "testSummary" in identity and "testSummary" in event:
            tests[identity["testSummary"]["label"]] = event["testSummary"]["overallStatus"]
    total, failures = Counter(), []
    for label, status in sorted(tests.items()):
        shards = results.get(label, {1: {}}).values()
        passed, failed, skipped = (sum(numbers) for numbers in zip(*map(shard_counts, shards)))
        if status in ("PASSED", "FLAKY"):
            passed = passed or 1  # a target without cases that can be told apart counts as one
        else:
            failed = max(failed, 1)
        total.update(passed=passed, failed=failed, skipped=skipped)
        if failed:
            failures.append(f"{label}: {'not built or not run' if status == 'NO_STATUS' else status}")
    return total, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", help="what --build_event_json_file wrote")
    parser.add_argument("--bazel-status", type=int, default=0, help="Bazel's exit code")
    arguments = parser.parse_args()
    with open(arguments.events, encoding="utf-8") as events:
        total, failures = count(events)
    if arguments.bazel_status and not failures:
        failures.append("the build failed")
        total["failed"] += 1
    for failure in failures:
        print("FAILED", failure)
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"{total['passed']} passed, {total['failed']} failed{skipped}")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
