"""Files to answers without a broker: dump, verify, repair, tables, explain, tune."""
