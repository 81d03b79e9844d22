"""The floor below every server as a process of its own: `python -m rota.bench.echo` prints its port and answers."""

from rota import _rota


def listening(port: int) -> None:
    """Report the address to the parent process."""
    print(port, flush=True)


if __name__ == "__main__":
    _rota.bench_echo("127.0.0.1:0", listening)
