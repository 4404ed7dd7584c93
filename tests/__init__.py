"""The tests. A package, so that no installed package of the same name is imported instead."""
