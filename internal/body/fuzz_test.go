package body_test

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"mime/multipart"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// seeds adds the bodies of all vectors, and some that are built.
func seeds(f *testing.F, more ...string) {
	for _, v := range vectors(f) {
		f.Add(v.Body)
	}
	for _, text := range more {
		f.Add([]byte(text))
	}
}

// checkDocument holds doc to what jsondoc promises of its values.
func checkDocument(t *testing.T, doc any) {
	switch v := doc.(type) {
	case string:
		require.True(t, utf8.ValidString(v) && !strings.Contains(v, "\x00"), "%q", v)
	case []any:
		for _, element := range v {
			checkDocument(t, element)
		}
	case map[string]any:
		for _, member := range v {
			checkDocument(t, member)
		}
	}
	jsondoc.AppendCanonical(nil, doc) // panics at a value that jsondoc does not have
}

func FuzzForm(f *testing.F) {
	seeds(f, "charset=GBK&a=%B2%E2&b=%C4%A3", "a=1&a=2&&=&a", "%u=%zz", "\xEF\xBB\xBFa=+%20")
	f.Fuzz(func(t *testing.T, data []byte) {
		form, err := body.ReadForm(data)
		if err != nil {
			require.True(t, isSyntax(err) || errors.Is(err, body.ErrLimit))
			return
		}
		var raw []byte
		for _, field := range form {
			name, err := url.QueryUnescape(string(field.RawName))
			require.NoError(t, err)
			require.Equal(t, name, string(field.Name))
			value, err := url.QueryUnescape(string(field.RawValue))
			require.NoError(t, err)
			require.Equal(t, value, string(field.Value))
			raw = append(append(raw, field.RawName...), field.RawValue...)
		}
		kept := bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
		require.Equal(t, len(kept)-bytes.Count(kept, []byte("&")), len(raw)+equals(kept), "bytes were lost")
		for _, charset := range []string{"", "gbk", "gb18030", "windows-1252", "x"} {
			object, err := form.Object(charset, false)
			repeated, errRepeated := form.Object(charset, true)
			require.NoError(t, errRepeated)
			checkDocument(t, repeated)
			if err == nil {
				require.Equal(t, object, repeated)
			}
		}
	})
}

// equals counts the first equals sign of each field, which no raw part has.
func equals(data []byte) int {
	n := 0
	for pair := range bytes.SplitSeq(data, []byte("&")) {
		if bytes.IndexByte(pair, '=') >= 0 {
			n++
		}
	}
	return n
}

func FuzzMultipart(f *testing.F) {
	f.Add([]byte(part(named("a"), "1")+part(named("b")+"\r\nContent-Type: text/plain", "2\r\n")+"--B--\r\n"), multipartB)
	f.Add([]byte("--B\n"+named("a")+"\n\n1\n--B--"), multipartB)
	f.Add([]byte(part(named("a")+`; filename="x"`, "1")+"--B--"), `multipart/form-data; boundary="B"; charset=x`)
	f.Fuzz(func(t *testing.T, data []byte, contentType string) {
		form, err := body.ReadMultipart(data, contentType)
		if err != nil {
			require.True(t, isSyntax(err) || errors.Is(err, body.ErrLimit))
			return
		}
		object, err := form.Object("", true)
		require.NoError(t, err)
		checkDocument(t, object)

		// The reader of the standard library finds the same parts.
		boundary := string(bytes.TrimPrefix(data[:bytes.IndexByte(data, '\r')], []byte("--")))
		r := multipart.NewReader(bytes.NewReader(data), boundary)
		for _, field := range form {
			p, err := r.NextRawPart()
			require.NoError(t, err)
			require.Equal(t, p.FormName(), string(field.Name))
			value, err := io.ReadAll(p)
			require.NoError(t, err)
			require.Equal(t, string(value), string(field.Value))
		}
		_, err = r.NextRawPart()
		require.ErrorIs(t, err, io.EOF)
	})
}

func FuzzXML(f *testing.F) {
	seeds(f, wechat, `<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>`, `<?xml version="1.0" encoding="GBK"?><a b="1">`+"\xB2\xE2</a>",
		`<a type="array"><b nil="true"/><b>&#xD800;</b><!-- x --><![CDATA[y]]></a>`, "<s:a xmlns:s='u'/>", "\xEF\xBB\xBF<a/>")
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := body.ReadXML(data)
		if err != nil {
			require.Nil(t, doc)
			require.True(t, isSyntax(err) || errors.Is(err, body.ErrLimit) || errors.Is(err, body.ErrText), "%v", err)
			return
		}
		checkDocument(t, doc)
		require.NotContains(t, string(data), "<!DOCTYPE ")
		// Whatever is accepted, encoding/xml finds well formed.
		d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))))
		d.CharsetReader = func(_ string, input io.Reader) (io.Reader, error) { return input, nil }
		if utf8.Valid(data) {
			for err == nil {
				_, err = d.Token()
			}
			require.ErrorIs(t, err, io.EOF)
		}
	})
}

func FuzzInflate(f *testing.F) {
	plain := []byte(`{"id":"evt_1","amount":100}`)
	f.Add(gzipped(f, plain), "gzip", 1000)
	f.Add(gzipped(f, make([]byte, megabyte)), "gzip", 70_000)
	f.Add(gzipped(f, gzipped(f, plain)), "x-gzip", 10)
	f.Add([]byte("x\x9c\x03\x00\x00\x00\x00\x01"), "deflate", 0)
	f.Fuzz(func(t *testing.T, data []byte, encoding string, limit int) {
		limit = max(0, min(limit, megabyte))
		inflated, err := body.Inflate(encoding, data, int64(limit))
		switch {
		case err != nil:
			require.True(t, errors.Is(err, body.ErrSyntax) || errors.Is(err, body.ErrLimit) || errors.Is(err, body.ErrUnsupported), "%v", err)
		case !bytes.Equal(inflated, data):
			require.LessOrEqual(t, len(inflated), limit)
		}
	})
}

func FuzzBase64(f *testing.F) {
	for _, text := range []string{"+/8=", "-_8", "+/\n8=", "", "AA==", "AB=="} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for spelling, encoding := range map[body.Base64]*base64.Encoding{
			body.Base64Std: base64.StdEncoding, body.Base64Raw: base64.RawStdEncoding, body.Base64URL: base64.URLEncoding, body.Base64RawURL: base64.RawURLEncoding,
		} {
			if plain, err := spelling.Decode(text); err == nil {
				require.Equal(t, encoding.EncodeToString(plain), string(text), "two spellings")
			}
		}
		if plain, err := body.Base64Lines.Decode(text); err == nil {
			joined := strings.NewReplacer("\r", "", "\n", "").Replace(string(text))
			require.Equal(t, base64.StdEncoding.EncodeToString(plain), joined)
		}
	})
}

func FuzzSealed(f *testing.F) {
	f.Add([]byte("Kj7QIyUiYx1q"), []byte("payscore"), []byte("0123456789abcdef0123"), bytes.Repeat([]byte("k"), 32))
	f.Fuzz(func(t *testing.T, nonce, associated, ciphertext, key []byte) {
		_, err := body.OpenSealed(nonce, associated, ciphertext, key)
		require.ErrorIs(t, err, body.ErrDecrypt)
	})
}

func FuzzToken(f *testing.F) {
	all := vectors(f)
	for _, text := range []string{rfcES256, rfcRS256, signedPayload(f, all["V57"].Body), signedPayload(f, all["V59"].Body), sign(f, header, pubsub())} {
		f.Add(text)
	}
	chain, at := appleChain(f, "test_ca"), time.UnixMilli(1681314324000)
	known := map[string]bool{rfcES256: true, signedPayload(f, all["V57"].Body): true, signedPayload(f, all["V58"].Body): true, signedPayload(f, all["V60"].Body): true}
	f.Fuzz(func(t *testing.T, text string) {
		_, errBearer := google().Verify(text, time.Unix(issuedAt, 0))
		token, err := body.ParseToken(text)
		if err != nil {
			require.ErrorIs(t, err, body.ErrToken)
			require.ErrorIs(t, errBearer, body.ErrToken)
			return
		}
		if payload, err := token.Verify(ecKey(t), body.ES256, body.RS256); err == nil {
			require.True(t, strings.Contains(text, "."+rfcPayload+"."), "%s is signed", payload)
		}
		if _, err := token.VerifyChain(chain, at, body.ES256); err == nil {
			require.True(t, known[text], "another token is signed: %s", text)
		}
	})
}

func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"RSA","use":"sig","kid":"k1","n":"` + rfcModulus + `","e":"AQAB"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC"},1,null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := body.ReadKeySet(data)
		if err != nil {
			require.Nil(t, keys)
			return
		}
		for id, key := range keys {
			require.NotEmpty(t, id)
			require.NotNil(t, key)
		}
	})
}

func FuzzSplit(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Body, "events")
		f.Add(v.Body, "")
	}
	f.Add([]byte(`{"a":[{"x":1,"x":2}, [ ] ,"]",1e5]}`), "a")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		var path []string
		if name != "" {
			path = []string{name}
		}
		items, err := body.Split(data, path...)
		if err != nil {
			return
		}
		// A document that reads well has the same elements either way.
		doc, err := jsondoc.Scan(data, everything)
		if err != nil {
			require.ErrorIs(t, err, jsondoc.ErrAmbiguous)
			return
		}
		whole, _ := jsondoc.Lookup(doc, path...)
		require.Len(t, items, len(whole.([]any)))
		for i, element := range whole.([]any) {
			item, err := jsondoc.Scan(items[i].Data, everything)
			require.NoError(t, err)
			require.Equal(t, element, item)
			_, object := element.(map[string]any)
			require.Equal(t, object, items[i].Err == nil)
		}
	})
}

func FuzzView(f *testing.F) {
	kinds := []*body.Kind{
		{}, appleKind, pubsubKind, braintreeKind, alipayKind, resource(wechatKey), {Format: body.FormatXML}, {Format: body.FormatMultipart, Repeats: true},
	}
	for i := range kinds {
		for _, v := range vectors(f) {
			f.Add(i, "application/x-www-form-urlencoded; charset=gbk", v.Body)
		}
	}
	f.Add(7, multipartB, []byte(part(named("a"), "1")+part(named("a"), "2")+"--B--"))
	f.Fuzz(func(t *testing.T, kind int, contentType string, data []byte) {
		k := kinds[uint(kind)%uint(len(kinds))]
		before := bytes.Clone(data)
		doc, err := body.View(k, contentType, data, everything)
		require.Equal(t, before, data, "the body was changed")
		_, checked := body.View(k, contentType, data, nil)
		require.Equal(t, err == nil, checked == nil, "%v, %v", err, checked)
		_, some := body.View(k, contentType, data, jsondoc.NewPaths([]string{"a", "b"}))
		require.Equal(t, err == nil, some == nil)
		if err == nil {
			checkDocument(t, doc)
		}
	})
}
