package explain_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/explain"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, method, path, query, host, body, note string }{
		"as it travels":            {"POST /a?b=c HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n\r\n{}\r\n", "POST", "/a", "b=c", "", "{}\r\n", ""},
		"with LF":                  {"POST /a HTTP/1.1\nX-A: 1\n\n{}\n", "POST", "/a", "", "", "{}\n", ""},
		"without a version":        {"POST /a\nX-A:1\n\nx", "POST", "/a", "", "", "x", ""},
		"of HTTP/2":                {"POST /a HTTP/2\n:method: POST\nx-a: 1\n\nx", "POST", "/a", "", "", "x", ""},
		"with a whole address":     {"POST https://h.example/a%20b?q HTTP/1.1\nX-A: 1\n\nx", "POST", "/a%20b", "q", "h.example", "x", ""},
		"with two slashes":         {"POST //a HTTP/1.1\nX-A: 1\n\nx", "POST", "//a", "", "", "x", ""},
		"after empty lines":        {"\r\n\nPOST /a HTTP/1.1\nX-A: 1\n\n\nx", "POST", "/a", "", "", "\nx", ""},
		"after a byte order mark":  {"\xEF\xBB\xBFPOST /a HTTP/1.1\nX-A: 1\n\nx", "POST", "/a", "", "", "x", "byte order mark"},
		"without a body":           {"POST /a HTTP/1.1\nX-A: 1\n\n", "POST", "/a", "", "", "", ""},
		"without an empty line":    {"POST /a HTTP/1.1\nX-A: 1", "POST", "/a", "", "", "", "no empty line"},
		"cut off":                  {"POST /a HTTP/1.1\nX-A: 1\nContent-Length: 9\n\nabc", "POST", "/a", "", "", "abc", "cut off: it has 3 of the 9"},
		"longer than announced":    {"POST /a HTTP/1.1\nX-A: 1\nContent-Length: 2\n\nabc\n", "POST", "/a", "", "", "abc\n", "2 more than Content-Length"},
		"as long as announced":     {"POST /a HTTP/1.1\nX-A: 1\nContent-Length: 3\n\nabc", "POST", "/a", "", "", "abc", ""},
		"chunked":                  {"POST /a HTTP/1.1\nX-A: 1\nTransfer-Encoding: chunked\n\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", "POST", "/a", "", "", "abcde", "was chunked"},
		"chunked, and shown whole": {"POST /a HTTP/1.1\nX-A: 1\nTransfer-Encoding: chunked\n\n{\"a\":1}", "POST", "/a", "", "", "{\"a\":1}", "taken as it stands"},
		"in JSON":                  {`{"method":"PUT","url":"/a?b","headers":{"x-a":"1"},"body":"é\n"}`, "PUT", "/a", "b", "", "é\n", ""},
		"in JSON with lists":       {`{"url":"https://h/a","headers":{"X-A":["1"]},"body_base64":"/w=="}`, "POST", "/a", "", "h", "\xff", ""},
		"in JSON, parsed":          {`{"headers":[{"name":"X-A","value":"1"}],"body":{"a" : 1}}`, "POST", "/", "", "", `{"a" : 1}`, "body is parsed JSON"},
		"in JSON without a body":   {`{"headers":{"X-A":"1"}}`, "POST", "/", "", "", "", "has no body"},
		"in JSON, with lost bytes": {`{"headers":{"X-A":"1"},"body":"` + "\xff" + `"}`, "POST", "/", "", "", "\uFFFD", "what stood there is lost"},
		"of a HAR file": {`{"startedDateTime":"x","request":{"method":"POST","url":"https://h/a?b=c","httpVersion":"HTTP/2.0","headers":[{"name":":path","value":"/"},` +
			`{"name":"x-a","value":"1"}],"postData":{"mimeType":"application/json","text":"{}"}}}`, "POST", "/a", "b=c", "h", "{}", ""},
		"of a whole HAR file": {`{"log":{"version":"1.2","entries":[{"request":{"method":"GET","url":"/b"}},` +
			`{"request":{"method":"POST","url":"/a","headers":[{"name":"x-a","value":"1"}],"postData":{"text":"{}"}}}]}}`, "POST", "/a", "", "", "{}", ""},
		"of a HAR file, in base64": {`{"request":{"url":"/a","headers":[{"name":"x-a","value":"1"}],"postData":{"text":"e30=","encoding":"base64"}}}`, "POST", "/a", "", "", "{}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := explain.Parse([]byte(row.text))
			require.NoError(t, err)
			require.Equal(t, []string{row.method, row.path, row.query, row.host, row.body}, []string{c.Method, c.Path, c.Query, c.Host, string(c.Body)})
			require.Equal(t, []string{"1"}, c.Header["X-A"])
			if row.note == "" {
				require.Empty(t, c.Notes)
			} else {
				require.Contains(t, strings.Join(c.Notes, "\n"), row.note)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "it is empty",
		"\n\n":                                "it is empty",
		"hello":                               "does not begin with a line such as POST",
		"POST /a b HTTP/1.1\n\n":              "does not begin with a line such as POST",
		"POST /a FTP/1.1\n\n":                 "does not begin with a line such as POST",
		"P(ST /a HTTP/1.1\n\n":                "does not begin with a line such as POST",
		"POST a HTTP/1.1\n\n":                 `"a" is no path`,
		"POST https:///a HTTP/1.1\n\n":        "is no path",
		"POST /a HTTP/1.1\nno header\n\n":     "line 2 is no header",
		"POST /a HTTP/1.1\nA: b\n folded\n\n": "line 3 is no header",
		"POST /a HTTP/1.1\nA b: c\n\n":        `"A b" is no name of a header`,
		`{"headers":{"A":1}}`:                 `header "A" is neither`,
		`{"headers":{"A":[1]}}`:               `header "A" is neither`,
		`{"headers":5}`:                       "headers:",
		`{"headers":[5]}`:                     "headers:",
		`{"method":"a b"}`:                    `"a b" is no method`,
		`{"url":"a"}`:                         `"a" is no path`,
		`{"body":"a","body_base64":"YQ=="}`:   "both body and body_base64",
		`{"body_base64":"?"}`:                 "body_base64:",
		`{"body":"a"} {}`:                     "something stands after the JSON object",
		`{"body"`:                             "unexpected EOF",
		`{"log":{"entries":[{"request":{"method":"GET"}}]}}`:                                   "none of the 1 requests of the HAR file is a POST",
		`{"log":{"entries":[{},{"request":{"method":"POST"}},{"request":{"method":"POST"}}]}}`: "jq '.log.entries[1]' FILE",
		"POST /a HTTP/1.1\n" + manyHeaders(201):                                                "more than 200 headers",
		"POST /a HTTP/1.1\nA: " + strings.Repeat("x", 300<<10) + "\nB: c\n\n":                  "the headers are longer than",
	} {
		_, err := explain.Parse([]byte(text))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "read request: ")
		require.Equal(t, exit.Usage, exit.Code(err))
	}
}

func manyHeaders(n int) string { return strings.Repeat("A: b\n", n) + "\n" }

// FuzzParse: whatever a file holds, it is read or refused; what is read is
// bounded by the file, and explaining it ends.
func FuzzParse(f *testing.F) {
	f.Add([]byte(wire(sign("stripe", plain), "/webhooks/stripe")))
	f.Add([]byte("POST /a HTTP/1.1\nTransfer-Encoding: chunked\n\n3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte(`{"method":"POST","url":"/a","headers":{"X-A":["1"]},"body":"{}"}`))
	f.Add([]byte(`{"log":{"entries":[{"request":{"method":"POST","url":"/a","postData":{"text":"{}"}}}]}}`))
	f.Add([]byte(`{"request":{"url":"/a","headers":[{"name":"x-a","value":"1"}],"postData":{"text":"e30=","encoding":"base64"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := explain.Parse(data)
		if err != nil {
			require.Equal(t, exit.Usage, exit.Code(err))
			return
		}
		require.NotEmpty(t, c.Method)
		require.LessOrEqual(t, len(c.Body), 3*len(data)) // U+FFFD for a byte
		for name := range c.Header {
			require.Equal(t, http.CanonicalHeaderKey(name), name)
		}
		r := explain.Explain(t.Context(), shared(), "stripe", c, now)
		require.Equal(t, r.Err == nil, len(r.Events) > 0 || r.Handshake)
	})
}
