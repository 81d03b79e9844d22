"""Rows that no transcript can say: versions, fields, malformed requests, order on a connection, time."""
