"""What commands print, and how: lines, columns, sections, progress, and how a program that runs for ever is stopped."""
