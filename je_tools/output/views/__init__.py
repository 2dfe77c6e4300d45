"""Views of results for people and as rows: tables, explanations, findings."""
