package explain

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/onceledger/onceledger/internal/body"
)

// change is another body that may be the one that was signed: what says how it
// differs from the received one, do what to do if it is.
type change struct {
	body     []byte
	what, do string
}

// What to do about a changed body.
const (
	keepRaw = "something parses the body and passes on what it made of it. Give the receiver the bytes as they came " +
		"(express.raw(), await request.text(), request.get_data(), php://input), or let the provider call it directly"
	editor  = "an editor or `echo` adds it; capture the raw bytes, and send them with curl --data-binary"
	trimmed = "a shell, a template or a framework trims the body; pass the raw bytes on, and send them with curl --data-binary @FILE"
	lines   = "an editor, git (autocrlf) or a form changes line ends; capture the raw bytes, and send them with curl --data-binary"
	charset = "something reads the body as text of a charset and writes it in another; handle it as bytes"
)

// bodies looks for what may have happened to the body on its way.
func (q *inquiry) bodies() []Cause {
	seen := map[[sha256.Size]byte]bool{sha256.Sum256(q.request.Body): true}
	for _, others := range []func([]byte) []change{q.lengths, edges, lineEnds, encodings, wrappings, q.forms, rewritten} {
		for _, c := range others(q.request.Body) {
			sum := sha256.Sum256(c.body)
			if seen[sum] {
				continue
			}
			seen[sum] = true
			req := q.request
			req.Body = c.body
			if q.right(q.src.Source, req) {
				return []Cause{{Kind: "body", What: "the body was changed after it was signed: " + c.what + ", the signature is right", Do: c.do}}
			}
		}
	}
	return nil
}

// lengths are the body as Content-Length announces it, and as it travelled.
func (q *inquiry) lengths(data []byte) []change {
	var list []change
	if n, ok := q.captured.announced(); ok && n < len(data) {
		list = append(list, change{data[:n], "cut at its Content-Length", "what comes after is no part of the request: an editor, a terminal, or the next request on the connection"})
	}
	return append(list, change{q.captured.Body, "compressed, as it travelled", "this sender signs what it compressed, which is not supported: let it send without Content-Encoding"})
}

// edges are the body with other white space, or a mark, at its beginning or end.
func edges(data []byte) []change {
	const space = " \t\r\n"
	cut := func(suffix string) []byte { return bytes.TrimSuffix(data, []byte(suffix)) }
	with := func(suffix string) []byte { return append(data[:len(data):len(data)], suffix...) }
	return []change{
		{cut("\n"), "without its last newline", editor},
		{cut("\r\n"), "without its last line end (CRLF)", editor},
		{bytes.TrimRight(data, space), "without the white space at its end", editor},
		{with("\n"), "with a newline at its end", trimmed},
		{with("\r\n"), "with a line end (CRLF) after it", trimmed},
		{bytes.TrimLeft(data, space), "without the white space at its beginning", editor},
		{bytes.Trim(data, space), "without the white space around it", editor},
		{bytes.TrimPrefix(data, []byte(bom)), "without its byte order mark", "an editor (or PowerShell's Out-File) writes it; capture the raw bytes"},
		{append([]byte(bom), data...), "with a byte order mark before it", charset},
		{bytes.TrimRight(bytes.TrimPrefix(data, []byte(bom)), space), "without its byte order mark and the white space at its end", editor},
	}
}

// lineEnds are the body with all its line ends changed.
func lineEnds(data []byte) []change {
	if bytes.IndexByte(data, '\n') < 0 {
		return nil
	}
	lf := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	crlf := bytes.ReplaceAll(lf, []byte("\n"), []byte("\r\n"))
	return []change{
		{lf, "with LF instead of CRLF", lines},
		{crlf, "with CRLF instead of LF", lines},
		{bytes.TrimSuffix(lf, []byte("\n")), "with LF instead of CRLF, and without its last newline", lines},
		{bytes.TrimSuffix(crlf, []byte("\r\n")), "with CRLF instead of LF, and without its last newline", lines},
	}
}

// encodings are the body in another charset.
func encodings(data []byte) []change {
	var list []change
	for _, set := range []*charmap.Charmap{charmap.ISO8859_1, charmap.Windows1252} {
		if !utf8.Valid(data) {
			if text, err := set.NewDecoder().Bytes(data); err == nil {
				list = append(list, change{text, "in UTF-8 instead of " + set.String(), charset})
			}
		} else if raw, err := set.NewEncoder().Bytes(data); err == nil {
			list = append(list, change{raw, "in " + set.String() + " instead of UTF-8", charset})
		}
	}
	return list
}

// wrappings are the body without what gateways and frameworks put around it.
func wrappings(data []byte) []change {
	const gateway = "a gateway passes it on so (AWS says isBase64Encoded): decode it before it reaches the receiver"
	var list []change
	add := func(inner []byte, ok bool, what, do string) {
		if ok {
			list = append(list, change{inner, what, do})
		}
	}
	text := strings.TrimSpace(string(data))
	var inner string
	err := json.Unmarshal(data, &inner)
	add([]byte(inner), err == nil && inner != "", "taken out of the JSON string that it is in", "something encodes the body a second time, as JSON.stringify does with a text; pass the text on as it is")
	raw, err := base64.StdEncoding.DecodeString(text)
	add(raw, err == nil, "decoded from base64", gateway)
	raw, err = body.Inflate("gzip", data, int64(max(1<<20, body.MaxRatio*len(data))))
	add(raw, err == nil, "decompressed", "the header Content-Encoding: gzip was lost on the way; let the proxy pass it on")
	plain, err := url.QueryUnescape(text)
	add([]byte(plain), err == nil && strings.HasPrefix(text, "%"), "with its percent escapes resolved", keepRaw)
	add([]byte(html.UnescapeString(text)), strings.Contains(text, "&"), "with its HTML entities resolved", keepRaw)
	slashes := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\'`, `'`)
	add([]byte(slashes.Replace(text)), strings.HasPrefix(text, `{\"`), "without the backslashes that were added", "WordPress adds slashes to what PHP receives: read php://input instead")
	add([]byte("payload="+url.QueryEscape(string(data))), strings.HasPrefix(text, "{"), "as the form field payload", "the webhook's content type is a form, and something took the JSON out of it: set it to application/json")
	return list
}
