"""Makes the helpers beside this file (`oracles`, `domains`) importable from every test directory."""
