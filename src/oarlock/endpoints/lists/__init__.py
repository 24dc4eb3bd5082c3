"""Lists and their forms: joined from bytes, as tables, as metadata, compressed. Read `answers` first."""
