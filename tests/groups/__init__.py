"""`rota groups` against rota, and against the broker that ROTA_TEST_BROKER names."""
