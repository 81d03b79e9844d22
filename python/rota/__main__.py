"""`python -m rota` is `rota`."""

from rota.cli import app

if __name__ == "__main__":
    app(prog_name="rota")
