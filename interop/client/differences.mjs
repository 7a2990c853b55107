// Where Turnstone answers differently on purpose. `at` is matched against "label.place"; docs/http.md
// says the same in words.
const shell = /^(v1 session\.)?shell( messages)?\./

export const intended = [
  { at: /^(v1 )?path\.body\.state$/, why: "the state of the server is its data directory" },
  { at: /^file\.read absent\./, why: "a file that is not there is 404, not an empty file" },
  { at: /^find\.text\./, why: "text is searched without an outside program; without one opencode fails" },
  { at: /^(v1 )?find\.files\.body\.length$/, why: "only names that hold the letters in order are found" },
  { at: /^v2 fs\.find\.body\.data\.length$/, why: "only names that hold the letters in order are found" },
  { at: /^file\.status dirty\./, why: "what changed is told; opencode always answers with nothing" },
  { at: /^prompt noReply with a missing file\.events\./, why: "an error is announced when what it is about is durable" },
  { at: new RegExp(`${shell.source}.*callID$`), why: "a call has an id of our own form" },
  { at: new RegExp(`${shell.source}.*metadata\\.(bytes|exit|truncated)$`), why: "exit code and size of a command are kept" },
  { at: /^(v1 session\.)?shell\.events/, why: "the prompt is durable before the session is busy, and the session is touched" },
  { at: /^session\.diff\.body\.length$/, why: "the diff of a session is real" },
  { at: /^(v1 )?session\.fork( again)?\.events\.length$/, why: "a fork is announced as whole once more when it is" },
  { at: /^session\.revert( further| and prompt)?\.body\.revert\.(diff|snapshot)$/, why: "no file was touched, so there is no guard to show" },
  { at: /^session\.(revert|unrevert)( further| and prompt| again)?\.body\.summary$/, why: "a session that changed no file has no figures" },
  { at: /^session\.revert( further| and prompt)?\.events\.length$/, why: "a diff that did not change is not announced" },
  { at: /^session\.revert of a message that is nowhere\./, why: "an unknown message is 404 and nothing is done" },
  { at: /^(v1 )?session\.abort( unknown)?\.events\.length$/, why: "nothing ran, so nothing is announced" },
  { at: /^session\.share\./, why: "sharing is disabled: a typed refusal instead of an internal error" },
  { at: /^session\.unshare\.events\.length$/, why: "nothing changed, so nothing is announced" },
  { at: /^malformed session\./, why: "a session id that is none is the client's mistake" },
  { at: /^v2 session\.list\.body\.cursor\./, why: "cursors are opaque" },
  { at: /^session\.list at the end\.body\.\d+\.summary$/, why: "figures are those of what the session changed" },
  { at: /^v1 project\.current\.body\.(icon|name)$/, why: "a changed name is seen by every client at once" },
]
