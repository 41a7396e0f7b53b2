"""Nothing that converts private rows, or is called on them, warns, quotes or chooses a type."""

import pickle
import threading
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skpublicdp import (
    GenericLearnerClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PrivateSelectionClassifier,
    PrivateVotesClassifier,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.hypotheses import Stumps
from skpublicdp.query_release import CustomQueries, MarginalQueries, ThresholdQueries
from skpublicdp.sanitizers import QuantileSanitizer
from tests.internals.data import RegressionTarget, Table, build_schema
from tests.internals.shared import call_or_raise
from tests.kit import Recorder

SIGNALLING = np.array([0x7FF0000000000001], dtype=np.uint64).view(np.float64)
SIGNALLING_32 = np.array([0x7F800001], dtype=np.uint32).view(np.float32)
STATES = pytest.mark.parametrize("state", ["warn", "raise"])


class LoudText(str):
    """Tells whoever compares it, hashes it or writes it out."""

    def _tell(self, *others):
        warnings.warn("SECRET", UserWarning, stacklevel=2)
        raise KeyError("The feature names SECRET")

    __eq__ = __ne__ = __str__ = __repr__ = __lt__ = _tell
    __hash__ = str.__hash__


class LoudNumber(float):
    """Tells whoever converts it or compares it, in the words of scikit-learn."""

    def _tell(self, *others):
        warnings.warn("SECRET", UserWarning, stacklevel=2)
        raise ValueError("The feature names are SECRET\nSECRET")

    __float__ = __int__ = __eq__ = __ne__ = __lt__ = __hash__ = __repr__ = _tell


class Muttering(float):
    """Is a number like others, and warns of it."""

    def __float__(self):
        warnings.warn("SECRET", UserWarning, stacklevel=2)
        return float.__float__(self)

    def __eq__(self, other):
        warnings.warn("SECRET", UserWarning, stacklevel=2)
        return float.__eq__(self, other)

    __hash__ = float.__hash__


NO_NUMBERS = {
    "text": "SECRET",
    "loud text": LoudText("SECRET"),
    "loud number": LoudNumber(8675309),
    "signalling": SIGNALLING[0],
    "signalling 32": SIGNALLING_32[0],
    "signalling decimal": Decimal("sNaN"),
    "masked": np.ma.masked,
    "complex": 3 + 4j,
    "complex128": np.complex128(3 + 4j),
    "complex64": np.complex64(3 + 4j),
    "complex array": np.array(3 + 4j),
    "huge": 10**400,
    "huge longdouble": np.longdouble("1e4000"),
    "infinite": np.inf,
    "missing": None,
    "dict": {"SECRET": 1},
    "list": [1, 2],
    "bytes": b"SECRET",
}


MISSING = ("signalling", "signalling 32", "masked", "missing", "huge longdouble", "infinite")
NO_FLOATS = {name: value for name, value in NO_NUMBERS.items() if name not in MISSING}


def observed(call, state="warn"):
    """Return (result, warnings, error) of a call, all of them heard."""
    # not of underflow: accounting meets it, and knows no private row
    heard = np.errstate(divide=state, over=state, invalid=state)
    with warnings.catch_warnings(record=True) as caught, heard:
        warnings.simplefilter("always")
        result = error = None
        try:
            result = call()
        except Exception as raised:
            error = type(raised), str(raised), raised.__cause__, raised.__context__
    return result, [(warning.category, str(warning.message)) for warning in caught], error


def one_sentence(fits, sentence):
    """Assert that all fits fail, alike and in silence."""
    heard = [observed(fit)[1:] for fit in fits]
    assert [said for said, _ in heard] == [heard[0][0]] * len(heard)
    assert "SECRET" not in str(heard[0])
    assert {error for _, error in heard} == {heard[0][1]}
    kind, text, *origins = heard[0][1]
    assert issubclass(kind, ValueError)
    assert sentence in text
    assert origins == [None, None]


def same(fit, *data_sets, state="warn"):
    """Assert that fits of some data sets leave the same bytes and warnings, whatever is released.

    `fit` takes a data set and returns all that somebody may see of it.
    """
    with Recorder() as recorder:
        first, expected, error = observed(lambda: fit(data_sets[0]))
    assert error is None
    for data in data_sets[1:]:
        with Recorder(recorder.outcomes):
            seen, said, error = observed(lambda data=data: fit(data), state)
        assert error is None
        assert said == expected
        assert pickle.dumps(seen) == pickle.dumps(first)
    return first


def column(values, replaced=...):
    """Return one column of objects, its last one replaced."""
    values = list(values)
    rows = np.empty((len(values), 1), dtype=object)
    for position, value in enumerate(values):
        rows[position, 0] = value
    if replaced is not ...:
        rows[-1, 0] = replaced
    return rows


class TestTheGuard:
    """What `call_or_raise` promises, alone."""

    def test_nothing_passes(self):
        def foreign():
            warnings.simplefilter("always")  # ours to forget
            warnings.warn("SECRET", UserWarning, stacklevel=1)
            return np.float64(1) / np.zeros(1) + np.array([1e308]) * 10

        before = warnings.filters[:]
        for state in ("warn", "raise"):
            result, said, error = observed(
                lambda: call_or_raise(foreign, error=ValueError("no")), state
            )
            assert (result.tolist(), said, error) == ([np.inf], [], None)
        assert warnings.filters == before

    def test_any_failure_is_the_one_given(self):
        def fails(error):
            raise error

        given = ValueError("no")
        for error in (KeyError("SECRET"), RuntimeWarning("SECRET"), MemoryError(), ValueError()):
            _, said, raised = observed(lambda error=error: call_or_raise(fails, error, error=given))
            assert (said, raised) == ([], (ValueError, "no", None, None))
        with pytest.raises(KeyboardInterrupt):
            call_or_raise(fails, KeyboardInterrupt(), error=given)

    def test_threads_share_the_filters(self):
        """Whoever leaves first must not let the warnings of the others out, or keep them in."""
        inside, left = threading.Barrier(3), threading.Event()

        def early():
            inside.wait(30)

        def late():
            inside.wait(30)
            assert left.wait(30)
            warnings.warn("SECRET", UserWarning, stacklevel=1)

        def run():
            threads = [
                threading.Thread(
                    target=call_or_raise, args=(call,), kwargs={"error": ValueError("no")}
                )
                for call in (early, late)
            ]
            for thread in threads:
                thread.start()
            inside.wait(30)
            threads[0].join()
            left.set()
            threads[1].join()
            warnings.warn("heard", UserWarning, stacklevel=1)

        assert observed(run)[1:] == ([(UserWarning, "heard")], None)


class TestPublicFit:
    """Transformers of other people see private rows in `transform`."""

    @pytest.mark.parametrize("handle", ["infrequent_if_exist", "warn", "ignore"])
    def test_unknown_categories(self, handle):
        encoder = OneHotEncoder(sparse_output=False, handle_unknown=handle, drop="first")
        public = PublicFit(encoder).fit([["a"]] * 3 + [["b"]] * 3, is_public=[True] * 6)
        for rows in ([["a"], ["b"]], [["a"], ["SECRET"]], column("ab", 8675309)):
            assert observed(lambda rows=rows: public.transform(rows))[1:] == ([], None)

    @STATES
    def test_arithmetic(self, state):
        inverse = FunctionTransformer(np.reciprocal, np.log, check_inverse=False)
        public = PublicFit(inverse).fit(np.ones((3, 1)), is_public=[True] * 3)
        for method in (public.transform, public.inverse_transform):
            for rows in ([[1.0], [2.0]], [[1.0], [0.0]], [[1.0], [-5e-324]]):
                rows = np.array(rows)
                assert observed(lambda m=method, r=rows: m(r), state)[1:] == ([], None)
        assert public.transform(np.array([[0.0]])) == np.inf

    def test_failures(self):
        class Fails(TransformerMixin, BaseEstimator):
            def fit(self, X, y=None):
                return self

            def transform(self, X):
                if len(X) > 3:
                    raise {1: KeyError, 2: RuntimeError, 3: ValueError}[X[-1, 0]](f"SECRET {X}")
                return X

            inverse_transform = transform

        public = PublicFit(Fails()).fit(np.ones((3, 1)), is_public=[True] * 3)
        for name in ("transform", "inverse_transform"):
            one_sentence(
                [
                    lambda last=last, name=name: getattr(public, name)(
                        np.array([[0], [0], [0], [last]])
                    )
                    for last in (1, 2, 3, 4)
                ],
                f"Fails.{name} failed on these rows",
            )

    @pytest.mark.parametrize("replaced", [2, 2.5, np.float64(2), Muttering(2), "2"])
    def test_a_list_of_numbers_is_one_of_floats(self, replaced):
        public = PublicFit(FunctionTransformer())
        rows = [[1], [3], [replaced]]
        out, said, error = observed(
            lambda: public.fit(rows, is_public=[True, True, False]).transform(rows)
        )
        assert (out.dtype, said, error) == (np.float64, [], None)

    def test_what_is_no_number(self):
        mask = [True, True, False]
        for make in (list, lambda rows: rows):
            one_sentence(
                [
                    lambda value=value, make=make: PublicFit().fit(
                        make(column([1.0, 2.0, 3.0], value)), is_public=mask
                    )
                    for value in NO_FLOATS.values()
                ],
                "must contain numbers only",
            )


PUBLIC_TWO = np.random.default_rng(1).normal(size=(40, 2))
PRIVATE_TWO = np.random.default_rng(2).normal(size=(30, 2))


class TestCustomQueries:
    """A user's function sees private rows."""

    def fit(self, function, rows=PRIVATE_TWO, method="pmw"):
        release = PAPQueryRelease(
            CustomQueries(function), method=method, bounds=(-1e6, 1e6), random_state=0
        )
        fitted = release.fit(rows, X_public=PUBLIC_TWO)
        carrier = fitted._released.rows
        return carrier.weights, carrier.rows, fitted.privacy_

    @STATES
    @pytest.mark.parametrize("method", ["pmw", "auto"])
    def test_no_warning(self, method, state):
        def loud(X):
            if (X > 10).any():
                warnings.warn("SECRET", UserWarning, stacklevel=1)
            with np.errstate(divide=np.geterr()["divide"]):
                return 1 / (X - 7) > 0.5

        odd = PRIVATE_TWO.copy()
        odd[-1] = 7, 11
        with Recorder(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = observed(lambda: self.fit(loud, method=method))[1:]
        with Recorder():
            assert observed(lambda: self.fit(loud, odd, method), state)[1:] == plain
        assert plain[1] is None

    @pytest.mark.parametrize("method", ["pmw", "auto"])
    def test_one_sentence(self, method):
        def odd(X):
            secret = X[-1, 0]
            if secret == 1001:
                raise KeyError(secret)
            if secret == 1002:
                raise ValueError("SECRET")
            answers = X > 0
            others = {
                1003: answers.astype(float),
                1004: answers.astype(object),
                1005: answers[1:],
                1006: answers[:, :1],
                1007: np.column_stack([answers, answers]),
                1008: answers[:, 0],
                1009: answers[None],
                1010: None,
            }
            return others.get(secret, answers)

        def rows(secret):
            changed = PRIVATE_TWO.copy()
            changed[-1, 0] = secret
            return changed

        one_sentence(
            [
                lambda secret=secret: self.fit(odd, rows(secret), method)
                for secret in range(1001, 1011)
            ],
            "must return booleans for any row",
        )

    def test_public_rows_may_be_named(self):
        def fails(X):
            raise KeyError("SECRET")

        with pytest.raises(ValueError, match="raised KeyError: 'SECRET'"):
            self.fit(fails)


MARKED = np.arange(40) < 20
AGES = np.tile(np.arange(20.0, 40.0), 2)
JOBS = np.tile(["farm", "shop"], 20)
LABELS = np.tile(["no", "yes", "yes", "no"], 10)

RELEASE = PAPQueryRelease(MarginalQueries(1, bins=4), epsilon=5, delta=1e-6, random_state=0)
BOOST = SemiPrivateBoostingClassifier(epsilon=5, random_state=0)


def release(rows, **public):
    fitted = RELEASE.fit(rows, **(public or {"is_public": MARKED}))
    carrier = fitted._released.rows
    rows = fitted._schema.decode(carrier.rows)
    kept = rows, carrier.weights, fitted.sample(3), fitted._schema, fitted.privacy_
    return [*kept, [type(part) for part in kept]]


def boost(rows, **public):
    return BOOST.fit(rows, LABELS[: len(rows)], **(public or {"is_public": MARKED}))


@pytest.mark.filterwarnings("ignore")
class TestObjectColumns:
    """Each value of a column of objects is read on its own, and in silence."""

    def test_no_number_in_a_release(self):
        rows = [column(AGES, value) for value in NO_NUMBERS.values()]
        one_sentence(
            [lambda rows=rows: release(rows) for rows in rows]
            + [lambda rows=rows: release(rows.tolist()) for rows in rows]
            + [lambda rows=rows: release(rows, X_public=AGES[:, None][:7]) for rows in rows],
            "Column x0 must contain numbers only",
        )

    def test_no_number_in_a_frame(self):
        def frame(value, name):
            one = pd.DataFrame({"age": AGES, "wage": AGES}, dtype=object)
            one[name] = column(AGES, value)[:, 0]
            return one

        frames = [frame(value, name) for name in ("age", "wage") for value in NO_NUMBERS.values()]
        one_sentence(
            [lambda rows=rows: release(rows) for rows in frames],
            "Columns age, wage must contain numbers only",
        )

    @pytest.mark.parametrize("fit", [release, boost])
    def test_categories(self, fit):
        missing = {"masked", "missing", "signalling", "signalling 32"}
        for kind in (None, "other"):
            values = [v for name, v in NO_NUMBERS.items() if (name in missing) == (kind is None)]
            rows = [column(JOBS, value) for value in values]
            same(fit, column(JOBS, kind), *rows, state="raise")

    def test_codes(self):
        schema = build_schema(Table(column(JOBS)), [Table(column(JOBS)[:4])])
        missing = (None, np.nan, np.ma.masked, pd.NA, pd.NaT, SIGNALLING[0])
        other = (3, "else", LoudNumber(1), LoudText("farm"), [1, 2], np.zeros(2), Decimal("sNaN"))
        for values, expected in ((missing, 3), (other, 2), (("shop", np.str_("shop")), 1)):
            for value in values:
                assert schema.encode(Table(column(JOBS, value)))[-1, 0] == expected

    def test_no_signalling_number_goes_on(self):
        schema = build_schema(Table(column(AGES)), [Table(column(AGES))], nullable=True)
        for rows in (np.append(AGES, SIGNALLING)[:, None], column(AGES, SIGNALLING_32[0])):
            encoded = schema.encode(Table(rows), clamp=False)
            assert encoded[-1].tobytes() == np.array([np.nan]).tobytes()

    @pytest.mark.parametrize(
        ("value", "number"),
        [
            ("30", 30.0),
            (np.ma.masked, np.nan),
            (None, np.nan),
            (SIGNALLING[0], np.nan),
            (SIGNALLING_32[0], np.nan),
            (np.float16(30), 30.0),
            (Muttering(30), 30.0),
            (Decimal(30), 30.0),
            (True, 1.0),
            (np.longdouble("1e4000"), np.inf),
        ],
    )
    def test_numbers_of_boosting(self, value, number):
        same(boost, column(AGES, number), column(AGES, value), state="raise")

    def test_no_number_of_boosting(self):
        one_sentence(
            [lambda value=value: boost(column(AGES, value)) for value in NO_FLOATS.values()],
            "Column x0 must contain numbers only",
        )

    def test_complex_columns_are_refused_by_type(self):
        for rows in (np.full((40, 1), 1j), pd.DataFrame({"age": np.full(40, 1j)})):
            for fit in (release, boost):
                with pytest.raises(ValueError, match="Complex"):
                    fit(rows)


@pytest.mark.filterwarnings("ignore")
class TestNumberColumns:
    """A type of floats is enough to warn: a signalling NaN, and what float32 cannot hold."""

    @pytest.mark.parametrize("odd", [SIGNALLING, SIGNALLING_32])
    def test_signalling(self, odd):
        rows = AGES.astype(odd.dtype)[:, None]
        quiet, loud = rows.copy(), rows.copy()
        quiet[-1], loud[-1] = np.nan, odd
        for make in (np.asarray, lambda rows: pd.DataFrame(rows, columns=["age"])):
            same(boost, make(quiet), make(loud), state="raise")
            infinite = rows.copy()
            infinite[-1] = np.inf
            spoilt = [make(quiet), make(loud), make(infinite)]
            sentence = "without missing or infinite values"
            one_sentence([lambda X=X: release(X) for X in spoilt], sentence)

    def test_longdouble(self):
        rows = AGES.astype(np.longdouble)[:, None]
        huge, infinite = rows.copy(), rows.copy()
        huge[-1], infinite[-1] = np.longdouble("1e4000"), np.inf
        same(boost, infinite, huge, state="raise")


ROWS = np.random.default_rng(0).integers(0, 9, size=(40, 2)).astype(float)
TWO = np.where(ROWS[:, 0] > 4, "yes", "no")
CLASSIFIERS = [
    SemiPrivateClassifier(Stumps(), random_state=0),
    GenericLearnerClassifier(random_state=0),
    PPMHalfspaceClassifier(random_state=0),
    PrivateSelectionClassifier(n_candidates=4, random_state=0),
    PrivateVotesClassifier(random_state=0),
]
BY_CLASSIFIER = pytest.mark.parametrize(
    "classifier", CLASSIFIERS, ids=lambda value: type(value).__name__
)


@pytest.mark.filterwarnings("ignore")
class TestRowsOfNumbers:
    """The door of rows that are all numbers."""

    @BY_CLASSIFIER
    def test_one_sentence(self, classifier):
        for make in (list, lambda rows: rows, pd.DataFrame):
            spoilt = []
            for value in NO_NUMBERS.values():
                rows = ROWS.astype(object)
                rows[-1, 1:] = column([value])[:, 0]
                spoilt.append(make(rows))
            one_sentence(
                [lambda X=X: classifier.fit(X, TWO) for X in spoilt], "must contain numbers only"
            )

    @BY_CLASSIFIER
    @STATES
    def test_floats(self, classifier, state):
        for odd in (SIGNALLING, SIGNALLING_32):
            spoilt = []
            for value in (odd[0], np.nan, np.inf, -np.inf):
                rows = ROWS.astype(odd.dtype)
                rows[-1, 1:] = odd if value is odd[0] else value
                spoilt.append(rows)
            one_sentence(
                [lambda X=X: classifier.fit(X, TWO) for X in spoilt],
                "without missing or infinite values",
            )

    def test_sanitizer(self):
        spoilt = [column(AGES, value) for value in NO_NUMBERS.values()]
        one_sentence(
            [lambda X=X: QuantileSanitizer().fit(X) for X in spoilt], "must contain numbers only"
        )

    @pytest.mark.parametrize("value", [5, "5", np.float16(5), Muttering(5), Decimal(5), np.str_(5)])
    def test_numbers_of_any_type_are_the_same(self, value):
        classifier = CLASSIFIERS[0]
        rows = ROWS.astype(object)
        rows[-1, 1] = 5.0
        other = rows.copy()
        other[-1, 1] = value
        same(lambda X: classifier.fit(X, TWO, X_public=ROWS[:9].copy()), rows, other, state="raise")
        as_lists = rows.tolist(), other.tolist()
        same(lambda X: classifier.fit(X, TWO, X_public=ROWS[:9].copy()), *as_lists, state="raise")


@pytest.mark.filterwarnings("ignore:Only 9 public rows")
class TestLabels:
    """The type of the classes is that of the set of labels."""

    def fit(self, y, **parameters):
        classifier = SemiPrivateClassifier(Stumps(), random_state=0, **parameters)
        return classifier.fit(ROWS, y, X_public=ROWS[:9].copy())

    @pytest.mark.parametrize(
        "value",
        [1.0, np.float32(1), np.int8(1), np.uint64(1), Muttering(1), Decimal(1), Fraction(1)],
    )
    @pytest.mark.parametrize("make", [list, lambda y: column(y)[:, 0], tuple])
    def test_numbers(self, value, make):
        y = [int(label == "yes") for label in TWO[:-1]]
        fitted = same(self.fit, make([*y, 1]), make([*y, value]), state="raise")
        assert fitted.classes_.dtype == np.int64
        same(lambda y: self.fit(y, classes=[0, 1]), make([*y, 1]), make([*y, value]))

    @pytest.mark.parametrize("value", [np.str_("yes"), LoudText("yes")])
    def test_text(self, value):
        y = TWO[:-1].tolist()
        assert same(self.fit, [*y, "yes"], [*y, value]).classes_.dtype == "<U3"
        objects = column([*y, "yes"])[:, 0], column([*y, value])[:, 0]
        # as wide as the labels, whatever else was among them
        assert same(self.fit, TWO, TWO.astype("<U30")).classes_.dtype == "<U3"
        fitted = same(self.fit, *objects)
        assert [type(label) for label in fitted.classes_.tolist()] == [str, str]

    def test_booleans(self):
        y = (TWO == "yes").tolist()
        assert same(self.fit, y, [*y[:-1], np.bool_(y[-1])]).classes_.dtype == bool

    def test_types_of_pandas(self):
        numbers, truth = (TWO == "yes").astype(int), TWO == "yes"
        types = ("Int64", "Float64", "category", object)
        alike = [pd.Series(numbers, dtype=dtype) for dtype in types]
        assert same(self.fit, numbers, *alike).classes_.dtype == np.int64
        assert same(self.fit, truth, pd.Series(truth, dtype="boolean")).classes_.dtype == bool
        missing = [
            pd.Series([*values[:-1].tolist(), None], dtype=dtype)
            for values, types in ((numbers, types), (TWO, ("string", "category", object)))
            for dtype in types
        ]
        one_sentence([lambda y=y: self.fit(y) for y in missing], "y contains missing labels")

    def test_unlabelled_rows_leave_the_type_alone(self):
        y, marked = TWO.tolist(), np.arange(len(TWO)) < 9
        y[:5] = [-1] * 5
        clf = SemiPrivateClassifier(Stumps(), random_state=0).fit(ROWS, y, is_public=marked)
        assert clf.classes_.tolist() == ["no", "yes"]

    @pytest.mark.parametrize("make", [list, lambda y: column(y)[:, 0]])
    def test_one_sentence(self, make):
        y = [int(label == "yes") for label in TWO[:-1]]
        odd = [*NO_NUMBERS.values(), 2.5, np.nan, True, 2**64, 2.0**53, Decimal("1.5")]
        for parameters in ({}, {"classes": [0, 1]}):
            more = [5, 2**53, Decimal(5)] if parameters else []
            one_sentence(
                [
                    lambda label=label, p=parameters: self.fit(make([*y, label]), **p)
                    for label in [*odd, *more]
                ],
                "y contains missing labels",
            )
        text = TWO[:-1].tolist()
        for label in odd[3:]:  # text is a label here
            if not isinstance(label, str):
                one_sentence([lambda label=label: self.fit(make([*text, label]))], "y contains ")

    @STATES
    def test_floats(self, state):
        y = (TWO == "yes").astype(float)
        spoilt = []
        for value in (SIGNALLING[0], np.nan, np.inf, 0.5, 2.0**60):
            one = y.copy()
            one[-1:] = SIGNALLING if value is SIGNALLING[0] else value
            spoilt.append(one)
        one_sentence([lambda y=y: self.fit(y) for y in spoilt], "y contains missing labels")

    @pytest.mark.parametrize("make", [np.asarray, np.ndarray.tolist, pd.DataFrame])
    def test_a_column_vector_is_still_told(self, make):
        with pytest.warns(DataConversionWarning, match="column-vector") as caught:
            self.fit(make(TWO[:, None]))
        assert caught[0].filename == __file__


@pytest.mark.parametrize("scalar", [np.float32, np.float16, lambda x: np.array(x, np.float32)])
def test_one_outcome_does_not_change_the_others(scalar):
    """In a list with one outcome as text, numpy reads all outcomes from their shortest decimals."""
    outcome = scalar(0.005004883)
    tables = []
    for last in (outcome, "0.005"):
        reader = RegressionTarget(bounds=(0, 1))
        tables.append(reader.column([outcome] * 3 + [last])[:3])
    np.testing.assert_array_equal(*tables)
    assert set(tables[0]) == {float(outcome)}


@pytest.mark.parametrize("odd", [np.datetime64("2020"), np.timedelta64(3, "D"), b"1"])
def test_dates_durations_and_bytes_are_no_outcomes(odd):
    with pytest.raises(ValueError, match="non-numeric"):
        RegressionTarget(bounds=(0, 1)).column([0.5, odd])


def test_masked_outcomes_are_missing():
    y = np.ma.masked_equal([1, 2, 3], 2)
    np.testing.assert_array_equal(RegressionTarget(bounds=(0, 9)).column(y), [1, np.nan, 3])


WHOLE = pd.DataFrame({"age": np.arange(40) % 20 + 20, "job": JOBS})


def with_age(age, dtype):
    ages = WHOLE["age"].astype(object).tolist()
    return WHOLE.assign(age=pd.Series([*ages[:-1], age], dtype=dtype))


@pytest.mark.filterwarnings("ignore")
class TestTypesOfColumns:
    """One private number must not decide what all numbers are written as."""

    PUBLIC = (
        {"is_public": MARKED},
        {"X_public": WHOLE[:7].copy()},
        {"X_public": WHOLE[:7].astype({"age": float})},
        {"X_public": WHOLE[:7].astype({"age": "Int64"}), "is_public": MARKED},
    )

    @pytest.mark.parametrize("public", PUBLIC)
    def test_of_a_release(self, public):
        whole, types = with_age(30, int), (float, "Int64", "Float64", np.float32, object, np.uint8)
        alike = [with_age(30, dtype) for dtype in types]
        seen = same(lambda rows: release(rows, **public), whole, *alike)
        assert {part["age"].dtype for part in (seen[0], seen[2])} == {np.dtype(np.int64)}
        # 29.5 and 30 are in one bin, so that nothing else differs either
        same(lambda rows: release(rows, **public), whole, with_age(29.5, float))

    @pytest.mark.parametrize("public", PUBLIC)
    def test_of_boosting(self, public):
        same(
            lambda rows: boost(rows, **public),
            with_age(None, "Int64"),
            with_age(np.nan, float),
            with_age(None, "Float64"),
            with_age(None, object),
            with_age(np.ma.masked, object),
        )
        same(
            lambda rows: boost(rows, **public),
            with_age(30, int),
            with_age(30, float),
            with_age(29.75, float),
        )

    def test_of_arrays(self):
        whole = (np.arange(40) % 20)[:, None]
        kinds = [whole.astype(dtype) for dtype in (float, object, np.uint8)] + [whole.tolist()]
        seen = same(release, whole, *kinds)
        assert seen[2].dtype == np.int64

    def test_public_fractions_are_fractions(self):
        halves = WHOLE[:7].assign(age=WHOLE["age"][:7] + 0.5)
        for rows in (with_age(30, int), with_age(29.5, float)):
            assert release(rows, X_public=halves)[0]["age"].dtype == np.float64

    def test_fractions_may_be_declared(self):
        for bounds, dtype in (((0, 100), np.int64), ((0, 100.5), np.float64)):
            one = PAPQueryRelease(ThresholdQueries(), bounds=bounds, random_state=0)
            one.fit(WHOLE[["age"]], X_public=WHOLE[["age"]][:7].copy())
            assert one.sample(1)["age"].dtype == dtype

    def test_no_public_rows(self):
        for rows in (WHOLE[["age"]], WHOLE[["age"]].astype(float)):
            one = PAPQueryRelease(ThresholdQueries(), bounds=(0, 100), random_state=0).fit(rows)
            assert one.sample(1)["age"].dtype == np.float64

    @pytest.mark.parametrize("mark", [True, False])
    @pytest.mark.parametrize("odd", [Decimal(3), 2**70, "3", 0.5, True, None])
    def test_integers_beyond_floats(self, odd, mark):
        """One private value of another type changes the codes of no other row."""
        ids = [2**62 + k for k in range(40)]
        codes = []
        for last, dtype in ((ids[-1], np.int64), (odd, object)):
            rows = pd.DataFrame({"id": pd.Series([*ids[:-1], last], dtype=dtype)})
            public = rows[:20] if mark else pd.DataFrame({"id": ids[:20]})
            schema = build_schema(Table(rows), [Table(public)], nullable=True)
            codes.append(schema.encode(Table(rows))[:-1])
        np.testing.assert_array_equal(*codes)
        assert len(np.unique(codes[0])) == 39

    def test_a_missing_integer_changes_no_other_row(self):
        """Functions of rows get each row in the same type, whatever the other rows are."""
        distances = np.concatenate([np.arange(-20, -10), np.arange(10, 20)]) * 2**52
        public = pd.DataFrame({"id": 2**62 + distances})
        schema = build_schema(Table(public), [Table(public)], nullable=True)
        encoded = schema.encode(Table(public))
        with_missing = np.append(encoded, [[np.nan]], axis=0)
        whole, others = schema.decode_rowwise(encoded), schema.decode_rowwise(with_missing)[:-1]
        pd.testing.assert_frame_equal(whole, others)

    def test_time_zones(self):
        """The zone is that of public dates, however the type of the private rows declares it."""
        days = pd.Timestamp("2020-01-01 22:00", tz="US/Eastern") + pd.to_timedelta(
            np.arange(40), "D"
        )
        aware = pd.DataFrame({"day": days, "job": JOBS})
        odd = aware.astype({"day": object})
        odd.loc[39, "day"] = odd.loc[39, "day"].tz_convert("Asia/Tokyo")
        alike = aware.astype({"day": object}), odd
        public = (
            {"is_public": MARKED},
            {"X_public": aware[:7].copy()},
            {"X_public": aware[:7].astype({"day": object})},
            {"X_public": aware[:7].copy(), "is_public": MARKED},
        )

        def boosted(rows, **public):
            model = boost(rows, **public)
            return model.predict(aware), model.shapes_[0].cells

        for rows in public:
            # each part alone, since parts can share one object for the name of a zone
            seen = same(
                lambda X, rows=rows: list(map(pickle.dumps, release(X, **rows))), aware, *alike
            )
            dtypes = {pickle.loads(seen[part])["day"].dtype for part in (0, 2)}
            assert dtypes == {pd.DatetimeTZDtype("us", "US/Eastern")}
            same(lambda X, rows=rows: RELEASE.fit(X, **rows).table("day"), aware, *alike)
            same(lambda X, rows=rows: boosted(X, **rows), aware, *alike)

    @pytest.mark.parametrize("values", [["a", "b", "c"], [1, 2, 9]])
    def test_declared_categories(self, values):
        """A private value that is no category makes text or objects of categories."""
        levels = pd.CategoricalDtype(values, ordered=True)
        kinds = pd.Series(np.resize(values, 40)).astype(levels)
        declared = pd.DataFrame({"kind": kinds, "job": JOBS})
        odd = declared.astype({"kind": object})
        odd.loc[39, "kind"] = "zz"
        public = declared[:7].copy()
        others = [declared.astype({"kind": kind}) for kind in (object, "str")]
        seen = same(lambda X: release(X, X_public=public), declared, *others)
        assert seen[0]["kind"].dtype == levels
        for rows in (declared, odd, odd.astype({"kind": "str"})):
            fitted = RELEASE.fit(rows, X_public=public)
            assert fitted.sample(5)["kind"].dtype == levels
            assert fitted._schema.columns[0].is_closed
            table = fitted.table("kind")["kind"]
            assert table.tolist() == [*map(str, values), "(other)", "(missing)"]
            assert table.dtype.ordered

    def test_booleans(self):
        plain = pd.DataFrame({"own": np.arange(40) % 2 == 0})
        seen = same(release, *(plain.astype({"own": kind}) for kind in (bool, "boolean", object)))
        assert seen[0]["own"].map(type).eq(bool).any()
        # also where a missing value has made objects of them, and public rows have one of the two
        true = plain.assign(own=plain["own"] | MARKED)
        kinds = bool, "boolean", object
        seen = same(release, *(true.astype({"own": kind}) for kind in kinds))
        assert seen[3].columns[0].values.tolist() == [False, True]


@pytest.mark.filterwarnings("ignore")
@STATES
def test_errors_of_numpy_are_no_errors_of_ours(state):
    """The user's error state must not turn a private value into an exception, or into none."""
    with np.errstate(divide=state, over=state, invalid=state):
        for rows in (column(AGES, np.longdouble("1e4000")), column(AGES, SIGNALLING_32[0])):
            assert boost(rows).classes_.tolist() == ["no", "yes"]
        with pytest.raises(ValueError, match="numbers only"):
            CLASSIFIERS[0].fit(column(AGES, np.longdouble("1e4000")), LABELS)
