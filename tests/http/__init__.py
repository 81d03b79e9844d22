"""`--http`: the page, groups as JSON, metrics."""
