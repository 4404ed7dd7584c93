"""`python -m glassformer`, and `torchrun -m glassformer`."""

from glassformer.cli import main

main()
