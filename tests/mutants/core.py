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
)

RULE = ("SemiPrivateClassifier, thresholds",)

MUTANTS = (
    Mutant(
        "the exponential mechanism without the factor 2",
        SCALE,
        "mechanisms/exponential.py",
        "    return epsilon / (2 * sensitivity)\n",
        "    return epsilon / sensitivity\n",
        ("exact draws",),
    ),
    Mutant(
        "Laplace noise scaled to the Euclidean sensitivity",
        SCALE,
        "accounting/measurements.py",
        "fraction_above(Fraction(sensitivity.absolute) / epsilon, NOISE_SCALE_BITS)",
        "fraction_above(Fraction(math.isqrt(sensitivity.squared)) / epsilon, NOISE_SCALE_BITS)",
        ("private_confusion_matrix, pure",),
    ),
    Mutant(
        "σ in place of σ²",
        SCALE,
        "mechanisms/rounded_gaussian.py",
        "    scale = _Scale(Fraction(sigma2))\n",
        "    scale = _Scale(Fraction(isqrt(int(sigma2)) or sigma2))\n",
        ("rounded Gaussian noise",),
    ),
    Mutant(
        "one-sided noise",
        SCALE,
        "mechanisms/discrete_laplace.py",
        "    return geometric.draw(size, bits) - geometric.draw(size, bits)\n",
        "    return geometric.draw(size, bits)\n",
        ("discrete Laplace noise",),
    ),
    Mutant(
        "a remainder instead of rejection sampling",
        RANDOMNESS,
        "mechanisms/randomness.py",
        """        value = bits.bits(count)
        if value < bound:
            return value
""",
        """        return bits.bits(count) % bound
""",
        ("random choices",),
    ),
    Mutant(
        "a publicly known seed",
        RANDOMNESS,
        "mechanisms/randomness.py",
        "        return SecureBits()\n",
        "        return SeededBits(0)\n",
        ("random bits",),
    ),
    Mutant(
        "noise from a short seed",
        RANDOMNESS,
        "privacy/ledger.py",
        "return sampler(scale, table.size, self._bits).reshape(table.shape)",
        "return sampler(scale, table.size, random_bits(self._bits.bits(32))).reshape(table.shape)",
        ("private_confusion_matrix",),
    ),
    Mutant(
        "identical noise in every row of a table",
        RANDOMNESS,
        "privacy/ledger.py",
        "return sampler(scale, table.size, self._bits).reshape(table.shape)",
        "return sampler(scale, table.shape[-1], self._bits) + np.zeros_like(table)",
        ("discrete Laplace noise", "SemiPrivateBoostingClassifier"),
    ),
    Mutant(
        "stages that use the same random bits",
        RANDOMNESS,
        "privacy/ledger.py",
        "            ledger.__dict__.update(self.__dict__, _lines=[], _parallel=(), "
        "_root=self._root)\n",
        """            bits = __import__("copy").deepcopy(self._bits)
            ledger.__dict__.update(
                self.__dict__, _lines=[], _parallel=(), _root=self._root, _bits=bits
            )
""",
        ("random bits",),
    ),
    Mutant(
        "a draw before its ledger entry",
        CHARGE,
        "privacy/ledger.py",
        """        self._enter(event, name, proof)
        return self._sample_member(family,""",
        """        try:
            return self._sample_member(family, event.epsilon, sensitivity * self.rows_per_person)
        finally:
            self._enter(event, name, proof)
        return self._sample_member(family,""",
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
    Mutant(
        "a budget that admits a second seeded fit",
        CHARGE,
        "privacy/budget.py",
        "        if seeded and not self.for_tests and",
        "        if False and",
        ("budgets",),
    ),
    Mutant(
        "a group that is not charged for fits on all rows",
        CHARGE,
        "privacy/budget.py",
        "            return [all_rows + groups.get(self._group, ZERO_SPENT)]\n",
        "            return [groups.get(self._group, ZERO_SPENT)]\n",
        ("budgets",),
    ),
    Mutant(
        "pure fits that are not counted against Gaussian noise",
        ACCOUNT,
        "accounting/filters.py",
        "        rules = [AdmissionRule(total.mu_squared, self.epsilon, self.delta * share)]\n",
        "        rules = [AdmissionRule(total.noise, self.epsilon, self.delta * share)]\n",
        ("budgets",),
    ),
    Mutant(
        "a formula for σ that holds only for small ε",
        ACCOUNT,
        "accounting/cap.py",
        "price is rho_price else gaussian_mu_squared(self.epsilon, self.delta)\n",
        """price is rho_price else self.epsilon**2 / self._logarithm()

    def _logarithm(self) -> Fraction:
        import math

        return Fraction(2 * math.log(1.25 / self.delta))
""",
        ("PAPQueryRelease, thresholds, cells refined",),
    ),
    Mutant(
        "a receipt for a single row of each person",
        ACCOUNT,
        "privacy/ledger.py",
        "            epsilon=written_above(self.epsilon) if",
        "            epsilon=written_above(self.epsilon / self.rows_per_person) if",
        ("SemiPrivateClassifier, persons",),
    ),
    Mutant(
        "a seed that the receipt does not mention",
        LEAK,
        "privacy/ledger.py",
        "            secure_randomness=self.secure and secure,\n",
        "            secure_randomness=secure,\n",
        RULE,
    ),
    Mutant(
        "a draw with the sensitivity of a single row per person",
        SENSITIVITY,
        "privacy/ledger.py",
        "event.epsilon, sensitivity * self.rows_per_person)\n",
        "event.epsilon, sensitivity)\n",
        ("SemiPrivateClassifier, persons",),
    ),
    Mutant(
        "a squared sensitivity of k instead of k² for a person's k rows",
        SENSITIVITY,
        "privacy/ledger.py",
        "n_rows * n_rows * sensitivity.squared)\n",
        "n_rows * sensitivity.squared)\n",
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
                from skpublicdp.data.persons import PersonRows

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
        "data/sources/chunk_task.py",
        "            raise ReadError(ORDER_CHANGED)\n",
        "            pass\n",
        ("PAPQueryRelease, marginals, persons of streamed rows in another order",),
    ),
)
