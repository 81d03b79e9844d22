"""What checks the coordinator, and the tree: engines, specifications, planted bugs, layout."""
