"""Internal names of mechanisms that tests use."""

from skpublicdp.mechanisms import discrete_laplace as discrete_laplace_module
from skpublicdp.mechanisms import exponential
from skpublicdp.mechanisms import rounded_gaussian as rounded_gaussian_module
from skpublicdp.mechanisms.discrete_laplace import discrete_laplace
from skpublicdp.mechanisms.exact_exp import TINY, FixedPowers, FloatPowers, exp_minus
from skpublicdp.mechanisms.exponential import draw, probabilities
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Product
from skpublicdp.mechanisms.randomness import SecureBits, SeededBits, random_bits, uniform_below
from skpublicdp.mechanisms.rounded_gaussian import _decide_by_integers, rounded_gaussian
from skpublicdp.mechanisms.subsets import random_indices, random_order, random_subset
