"""Defects of mechanisms, the ledger, budgets and accounting."""

from tests.mutants.mutant import (
    ACCOUNT,
    CHARGE,
    LEAK,
    RANDOMNESS,
    SCALE,
    SENSITIVITY,
    STRUCTURE,
    Mutant,
    Patch,
)

RULE = ("SemiPrivateClassifier, thresholds",)

MUTANTS = (
    Patch(
        "the exponential mechanism without the factor 2",
        SCALE,
        "_error_rate",
        "lambda epsilon, sensitivity: epsilon / sensitivity",
        ("exact draws",),
    ),
    Patch(
        "Laplace noise scaled to the Euclidean sensitivity",
        SCALE,
        "noise_scale",
        """def replacement(event, sensitivity):
    norm = math.isqrt(sensitivity.squared)
    return original(event, Sensitivity(norm, sensitivity.squared))
""",
        ("private_confusion_matrix, pure",),
    ),
    Patch(
        "σ in place of σ²",
        SCALE,
        "rounded_gaussian",
        """def replacement(sigma2, size, bits):
    return original(Fraction(math.isqrt(int(sigma2)) or sigma2), size, bits)
""",
        ("rounded Gaussian noise",),
    ),
    Patch(
        "one-sided noise",
        SCALE,
        "discrete_laplace",
        "lambda scale, size, bits: _geometric(1 / Fraction(scale)).draw(size, bits)",
        ("discrete Laplace noise",),
    ),
    Patch(
        "a remainder instead of rejection sampling",
        RANDOMNESS,
        "uniform_below",
        "lambda bound, bits: bits.bits((bound - 1).bit_length()) % bound",
        ("random choices",),
    ),
    Patch(
        "a publicly known seed",
        RANDOMNESS,
        "random_bits",
        "lambda random_state=None: original(0 if random_state is None else random_state)",
        ("random bits",),
    ),
    Patch(
        "noise from a short seed",
        RANDOMNESS,
        "Ledger._sample_noise",
        """def replacement(self, event, scale, table):
    short = types.SimpleNamespace(_bits=random_bits(self._bits.bits(32)))
    return original(short, event, scale, table)
""",
        ("private_confusion_matrix",),
    ),
    Patch(
        "identical noise in every row of a table",
        RANDOMNESS,
        "Ledger._sample_noise",
        """def replacement(self, event, scale, table):
    return original(self, event, scale, table.reshape(-1, table.shape[-1])[0]) + 0 * table
""",
        ("discrete Laplace noise", "SemiPrivateBoostingClassifier"),
    ),
    Patch(
        "stages that use the same random bits",
        RANDOMNESS,
        "Ledger.split",
        """def replacement(self, n_parts):
    ledgers = original(self, n_parts)
    for ledger in ledgers:
        ledger._bits = copy.deepcopy(self._bits)
    return ledgers
""",
        ("random bits",),
    ),
    Patch(
        "a draw before its ledger entry",
        CHARGE,
        "Ledger.draw",
        """def replacement(self, family, event, sensitivity, *, name, proof):
    try:
        return self._sample_member(family, event.epsilon, sensitivity * self.rows_per_person)
    finally:
        self._enter(event, name, proof)
""",
        RULE,
    ),
    Mutant(
        "noise without a ledger entry",
        CHARGE,
        "query_release/marginals/release.py",
        """        noisy = round_ledger.add_noise(
            counts[columns], units.sensitivity, event, name=name, proof=MARGINALS_PROOF
        )
""",
        """        from skpublicdp.accounting import Measurement

        scale, variance = noise_scale(event, round_ledger.for_person(units.sensitivity))
        drawn = round_ledger._sample_noise(event, scale, counts[columns])
        noisy = Measurement(counts[columns] + drawn, scale, variance)
""",
        ("PAPQueryRelease, marginals, pure",),
    ),
    Mutant(
        "a charge for only one of several steps",
        CHARGE,
        "privacy/ledger.py",
        "                self._charged_event(),\n                who=self._who,",
        "                event,\n                who=self._who,",
        ("SemiPrivateClassifier, in rounds",),
    ),
    Mutant(
        "a budget check that ignores the requested fit",
        CHARGE,
        "privacy/budget.py",
        "            if not self._filter.admits(total + price):\n",
        "            if not self._filter.admits(total):\n",
        ("budgets",),
    ),
    Patch(
        "a budget that admits a second seeded fit",
        CHARGE,
        "PrivacyBudget._admit",
        "lambda self, event, seeded, connection: original(self, event, False, connection)",
        ("budgets",),
    ),
    Patch(
        "a group that is not charged for fits on all rows",
        CHARGE,
        "PrivacyBudget._limiting_totals",
        """def replacement(self, groups):
    own = [groups.get(self._group, ZERO_SPENT)]
    return own if self._group else original(self, groups)
""",
        ("budgets",),
    ),
    Patch(
        "pure fits that are not counted against Gaussian noise",
        ACCOUNT,
        "Filter.admission_rules",
        """def replacement(self, total):
    first, *others = original(self, total)
    return [first._replace(noise=total.noise), *others]
""",
        ("budgets",),
    ),
    Patch(
        "a formula for σ that holds only for small ε",
        ACCOUNT,
        "BudgetCap._mu_squared",
        """def replacement(self):
    price, _ = self._currency()
    if price is rho_price:
        return original(self)
    return self.epsilon**2 / Fraction(2 * math.log(1.25 / self.delta))
""",
        ("PAPQueryRelease, thresholds, cells refined",),
    ),
    Patch(
        "a receipt for a single row of each person",
        ACCOUNT,
        "Ledger.receipt",
        """def replacement(self, **options):
    receipt = original(self, **options)
    return dataclasses.replace(receipt, epsilon=receipt.epsilon / self.rows_per_person)
""",
        ("SemiPrivateClassifier, persons",),
    ),
    Patch(
        "a seed that the receipt does not mention",
        LEAK,
        "Ledger.receipt",
        """def replacement(self, *, secure=True, **options):
    return dataclasses.replace(original(self, **options), secure_randomness=secure)
""",
        RULE,
    ),
    Patch(
        "a log with an exact sum",
        LEAK,
        "Ledger.add_noise",
        """def replacement(self, table, *args, **options):
    report(str(table.sum()), self._who)
    return original(self, table, *args, **options)
""",
        ("SemiPrivateLogisticRegression",),
    ),
    Patch(
        "a draw with the sensitivity of a single row per person",
        SENSITIVITY,
        "Ledger.draw",
        """def replacement(self, family, event, sensitivity, *, name, proof):
    self._enter(event, name, proof)
    return self._sample_member(family, event.epsilon, sensitivity)
""",
        ("SemiPrivateClassifier, persons",),
    ),
    Patch(
        "a squared sensitivity of k instead of k² for a person's k rows",
        SENSITIVITY,
        "Ledger.for_person",
        """def replacement(self, sensitivity):
    k = self.rows_per_person
    return Sensitivity(k * sensitivity.absolute, k * sensitivity.squared)
""",
        ("PAPQueryRelease, marginals, persons",),
    ),
    Mutant(
        "kept rows of a person chosen by the values of all rows",
        STRUCTURE,
        "data/roles.py",
        "            counted = cap_rows_per_group(max_rows, groups, ~self.is_public, ledger)\n"
        "            return replace(self, counted=counted)\n",
        """            counted = ~self.is_public
            if groups is not None:
                from skpublicdp.data.roles import PersonRows

                persons = PersonRows.read(max_rows, groups, counted)
                values = as_numbers(self.table).sum(axis=1)
                distances = abs(values - values.mean())[persons.crowded]
                counted = persons.keep(np.argsort(np.argsort(distances, kind="stable")))
            return replace(self, counted=counted)
""",
        ("PAPQueryRelease, marginals, two of three rows of a person",),
    ),
    Mutant(
        "kept rows of a person at other positions in a later pass",
        SENSITIVITY,
        "data/sources/reader.py",
        "            raise ReadError(ORDER_CHANGED)\n",
        "            pass\n",
        ("PAPQueryRelease, marginals, persons of streamed rows in another order",),
    ),
)
