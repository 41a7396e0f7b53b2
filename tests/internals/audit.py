"""Internal names of audit that tests use."""

from skpublicdp.audit import epsilon_bounds, tracing
from skpublicdp.audit.data_sets import Domain
from skpublicdp.audit.enumerated_runs import PRECISION, EnumeratedRun, enumerate_runs
from skpublicdp.audit.event_loss import smallest_losses
from skpublicdp.audit.observe import canonical_form, describe_difference, first_difference
from skpublicdp.audit.observed_fit import FitRecorder, fit_once
from skpublicdp.audit.privacy_loss import PrivacyLosses, gaussian_delta
from skpublicdp.audit.recorder import MechanismCall, Recorder, replaced
from skpublicdp.audit.sensitivity import (
    IncomparableError,
    error_range,
    log_partition_function,
    member_errors,
)
from skpublicdp.audit.verification import ERRORS, SAMPLES
