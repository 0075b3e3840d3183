INSERT INTO items (id, text) VALUES (41, 'more'), (42, 'and more'), (43, NULL);
