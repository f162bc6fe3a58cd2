"""From files to answers, without a broker: dump, verify, repair, explain, tune, tables."""
