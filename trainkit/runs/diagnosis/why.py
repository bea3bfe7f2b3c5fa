"""`JournaledRun.why`: all checks of a run, the gravest findings first."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from trainkit.runs.diagnosis import data_checks, journal_checks, model_checks, step_checks
from trainkit.runs.diagnosis.evidence import Evidence
from trainkit.runs.diagnosis.findings import KINDS, Finding, RunDiagnosis
from trainkit.runs.run_programs import process_unchanged

if TYPE_CHECKING:
    from trainkit.runs.journaled_run import JournaledRun

_SECONDS = 60.0


def why(run: JournaledRun, seconds: float = _SECONDS) -> RunDiagnosis:
    """Say what happened in a run: sentences with numbers, and the command to look closer.

    The journal alone tells of jumps of the loss, NaN, a rate that is too high, waiting for data and
    a validation that fell; where the run's arrays are stored, of scales, classes, the order and
    duplicates; where steps can be done again, of rows, gradients, updates, units and statistics.

    Args:
        run: it.
        seconds: how long steps may be done again, by the times that the journal has; 0 for none.

    Returns:
        A `RunDiagnosis`, without findings for a run that is well.

    Raises:
        ValueError: `seconds` is below 0.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile(tk.optimizers.SGD(10.0), "mse")
        >>> x = tk.reshape(tk.range(64.0) / 64.0, (64, 1))
        >>> history = model.fit(x, x, 8, epochs=2, verbose=0, run="runs/wild")
        >>> "high rate" in [f.kind for f in tk.runs.why(tk.runs.open("runs/wild")).findings]
        True
    """
    if not seconds >= 0:
        raise ValueError(f"why: seconds must be 0 or more, got {seconds!r}")
    evidence = Evidence(run, seconds)
    findings: list[Finding] = []
    with process_unchanged(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps that are done again warn as they did at first
        figures = step_checks.sampled_figures(evidence)
        findings += step_checks.check_nan(evidence)
        order = data_checks.check_order(evidence)
        jumps = step_checks.check_jumps(evidence)
        high = [] if order else journal_checks.check_high_rate(evidence)
        if high and not _explains(jumps, high[0]):
            findings += high
        else:
            findings += jumps + step_checks.check_gradients(evidence, figures)
        findings += step_checks.check_updates(evidence, figures)
        findings += model_checks.check_dead_units(evidence)
        findings += model_checks.check_batch_statistics(evidence)
        findings += model_checks.check_label_shift(evidence)
        findings += model_checks.check_validation(evidence)
        findings += order
        findings += data_checks.check_duplicates(evidence)
        findings += journal_checks.check_waiting(evidence)
        findings += data_checks.check_shifted_rows(evidence)
        findings += data_checks.check_scale(evidence)
        findings += data_checks.check_imbalance(evidence)
    damage = run.journal.problems()
    if damage:
        evidence.lack(f"what the journal has lost: {damage}")
    if evidence.training is None:
        evidence.lack("the data: its arrays are not stored with the run")
    findings.sort(key=lambda finding: KINDS.index(finding.kind))
    return RunDiagnosis(str(run.folder), findings, evidence.unknown)


def _explains(jumps: list[Finding], high: Finding) -> bool:
    """Whether single rows or a new rate made the loss jump, which had not grown before."""
    return any(
        bool(jump.facts.get("rows_of_batch") or jump.facts.get("rates"))
        and jump.facts["before"] < 1.2 * high.facts["begins"]
        for jump in jumps
    )
