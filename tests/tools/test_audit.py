"""The audit's interpretation of its tools' output."""

from tools.audit import NO_ANSWER, npm_findings, python_findings


def test_findings_are_reported() -> None:
    """Each finding is a line with the version that fixes it."""
    vulnerable = {"name": "alpha", "version": "1.0", "vulns": [{"id": "X-1", "fix_versions": ["1.1"]}]}
    skipped = {"name": "gamma", "skip_reason": "not found"}
    audit = {"dependencies": [vulnerable, {"name": "beta", "version": "2.0", "vulns": []}, skipped]}
    findings, summary = python_findings(audit)
    assert findings == ["alpha 1.0: X-1, fixed in ['1.1']"]
    assert summary == "known vulnerabilities: 1 in 2 packages; no data for 1"
    metadata = {"dependencies": {"total": 7}}
    found = {"vulnerabilities": {"gamma": {"range": "<2", "severity": "high"}}, "metadata": metadata}
    assert npm_findings(found) == (["gamma <2: high"], "known vulnerabilities: 1 in 7 packages")


def test_audit_without_data_reports_a_failure() -> None:
    """A registry without data, or with an error, is reported as such."""
    skipped = {"dependencies": [{"name": "alpha", "skip_reason": "not found"}]}
    assert python_findings(skipped) == ([], NO_ANSWER)
    assert npm_findings({"error": {"code": "E405"}}) == ([], NO_ANSWER)
