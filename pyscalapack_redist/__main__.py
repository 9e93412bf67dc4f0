"""`python -m pyscalapack_redist`, the same as `pyscalapack-redist`."""

from .tools.cli import main

if __name__ == "__main__":
    main()
