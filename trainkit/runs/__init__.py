"""Runs that were written down by `fit(run=...)` or a `Recorder`: open, compare, go back, prove."""

from trainkit.callbacks.run_journal import RunJournal as RunJournal
from trainkit.journal.journal_reader import Journal as Journal
from trainkit.journal.journal_reader import JournalError as JournalError
from trainkit.journal.lines import Step as Step
from trainkit.journal.recorder import Recorder as Recorder
from trainkit.runs.diagnosis.findings import Finding as Finding
from trainkit.runs.diagnosis.findings import RunDiagnosis as RunDiagnosis
from trainkit.runs.diagnosis.why import why as why
from trainkit.runs.journaled_run import JournaledRun as JournaledRun
from trainkit.runs.journaled_run import open as open
from trainkit.runs.past_state import PastState as PastState
from trainkit.runs.proofs import RunProof as RunProof
from trainkit.runs.proofs import Verification as Verification
from trainkit.runs.proofs import prove as prove
from trainkit.runs.proofs import verify as verify
from trainkit.runs.proofs import weights_sha256 as weights_sha256
from trainkit.runs.run_diff import RunDifference as RunDifference
from trainkit.runs.run_diff import diff as diff
from trainkit.runs.run_programs import ReplayError as ReplayError
from trainkit.runs.step_modes import MODES as MODES
from trainkit.runs.step_modes import diff_modes as diff_modes
from trainkit.runs.step_modes import shadow as shadow
