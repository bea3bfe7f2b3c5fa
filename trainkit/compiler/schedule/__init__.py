"""How steps become loops: rows, memory, parallel parts."""
