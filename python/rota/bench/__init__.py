"""`rota bench`: heartbeats through a broker or through the coordinator alone, beside the floor of the machine."""
