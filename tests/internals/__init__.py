"""The internal names that tests use, by room of the package: the only tests that know where.

Whoever moves a definition changes one line here. Tests import public names from the package and
everything else from this folder. They patch a name of a module through the module that this folder
hands on: ``monkeypatch.setattr(synthetic, "N_TREE_ROWS", 2000)``.
"""
