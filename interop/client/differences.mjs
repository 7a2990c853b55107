// Where Turnstone answers differently on purpose. `at` is matched against "label.place"; docs/http.md
// says the same in words.
export const intended = []
