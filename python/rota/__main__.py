"""`python -m rota` is `rota`."""

from rota.cli import run

if __name__ == "__main__":
    run()
