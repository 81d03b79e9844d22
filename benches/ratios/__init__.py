"""Every goal of the project's speed, measured beside its rival or its floor in one run: `make ratios`."""
