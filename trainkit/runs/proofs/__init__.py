"""Proofs that a run took place as its journal says, and their verification by replay."""

from trainkit.runs.proofs.run_proof import RunProof as RunProof
from trainkit.runs.proofs.run_proof import prove as prove
from trainkit.runs.proofs.run_proof import weights_sha256 as weights_sha256
from trainkit.runs.proofs.verification import Verification as Verification
from trainkit.runs.proofs.verification import verify as verify
