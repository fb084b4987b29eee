package body_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
)

const multipartB = "multipart/form-data; boundary=B"

// part is one field of a form with the boundary B.
func part(header, value string) string {
	return "--B\r\n" + header + "\r\n\r\n" + value + "\r\n"
}

func named(name string) string { return fmt.Sprintf("Content-Disposition: form-data; name=%q", name) }

func TestMultipart(t *testing.T) {
	t.Run("fields as the standard library writes them", func(t *testing.T) {
		var buffer bytes.Buffer
		w := multipart.NewWriter(&buffer)
		require.NoError(t, w.WriteField("amount", "10.00"))
		require.NoError(t, w.WriteField("note", "a\r\nb — ü\n"))
		require.NoError(t, w.WriteField("empty", ""))
		require.NoError(t, w.Close())

		doc, err := body.View(&body.Kind{Format: body.FormatMultipart}, w.FormDataContentType(), buffer.Bytes(), everything)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"amount": "10.00", "note": "a\r\nb — ü\n", "empty": ""}, doc)
	})

	t.Run("a part may name its type and no other charset", func(t *testing.T) {
		form, err := body.ReadMultipart([]byte(part(named("a")+"\r\nContent-Type: text/plain; charset=UTF-8", "é")+"--B--\r\n"), multipartB)
		require.NoError(t, err)
		require.Equal(t, body.Form{{RawName: []byte("a"), RawValue: []byte("é"), Name: []byte("a"), Value: []byte("é")}}, form)
	})

	t.Run("repeated names are ambiguous", func(t *testing.T) {
		_, err := body.View(&body.Kind{Format: body.FormatMultipart}, multipartB, []byte(part(named("a"), "1")+part(named("a"), "2")+"--B--"), everything)
		require.ErrorIs(t, err, body.ErrAmbiguous)
	})

	for name, data := range map[string]string{
		"a preamble":                        "x\r\n" + part(named("a"), "1") + "--B--",
		"an epilogue":                       part(named("a"), "1") + "--B--\r\nx",
		"no last boundary":                  part(named("a"), "1"),
		"nothing":                           "",
		"no part":                           "--B--",
		"a longer boundary":                 "--BB\r\n" + named("a") + "\r\n\r\n1\r\n--BB--",
		"bare line feeds":                   strings.ReplaceAll(part(named("a"), "1")+"--B--", "\r\n", "\n"),
		"a boundary after a bare line feed": part(named("a"), "1\n--B\r\n"+named("b")+"\r\n\r\n2") + "--B--",
		"the boundary within a value":       part(named("a"), "see --B") + "--B--",
		"space after the boundary":          "--B \r\n" + named("a") + "\r\n\r\n1\r\n--B--",
		"a file":                            part(named("a")+`; filename="x"`, "1") + "--B--",
		"an encoded file name":              part(named("a")+`; filename*=UTF-8''x`, "1") + "--B--",
		"an encoded name":                   part(`Content-Disposition: form-data; name*=UTF-8''a`, "1") + "--B--",
		"an escaped name":                   part(`Content-Disposition: form-data; name="a\"b"`, "1") + "--B--",
		"two names":                         part(`Content-Disposition: form-data; name="a"; name="b"`, "1") + "--B--",
		"no name":                           part(`Content-Disposition: form-data`, "1") + "--B--",
		"an attachment":                     part(`Content-Disposition: attachment; name="a"`, "1") + "--B--",
		"two dispositions":                  part(named("a")+"\r\n"+named("b"), "1") + "--B--",
		"a nested multipart":                part(named("a")+"\r\nContent-Type: multipart/mixed; boundary=C", "1") + "--B--",
		"a transfer encoding":               part(named("a")+"\r\nContent-Transfer-Encoding: base64", "MQ==") + "--B--",
		"another charset":                   part(named("a")+"\r\nContent-Type: text/plain; charset=utf-16", "1") + "--B--",
		"a folded header":                   part("Content-Disposition: form-data;\r\n name=\"a\"", "1") + "--B--",
		"a header on the boundary's line":   "--BX: y\r\n" + named("a") + "\r\n\r\n1\r\n--B--",
		"a file in a folded line":           part(named("a")+"\r\n ; filename=\"x:y\"", "1") + "--B--",
		"no header":                         "--B\r\n\r\n1\r\n--B--",
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			_, err := body.ReadMultipart([]byte(data), multipartB)
			require.Error(t, err)
			require.True(t, isSyntax(err), "%v", err)
		})
	}

	for contentType, boundary := range map[string]string{
		"": "B", "application/x-www-form-urlencoded": "B", "multipart/mixed; boundary=B": "B", "multipart/form-data": "", "multipart/form-data; boundary=": "",
		"multipart/form-data; boundary=B; boundary=C": "B", "multipart/form-data; boundary*=UTF-8''B": "B", "multipart/form-data; boundary*0=B; boundary*1=C": "BC",
		`multipart/form-data; boundary="B "`: "B ", `multipart/form-data; boundary="B\""`: `B"`, "multipart/form-data; boundary=" + strings.Repeat("B", 71): strings.Repeat("B", 71),
	} {
		t.Run("refused content type: "+contentType, func(t *testing.T) {
			data := strings.ReplaceAll(part(named("a"), "1")+"--B--", "--B", "--"+boundary)
			_, err := body.ReadMultipart([]byte(data), contentType)
			require.True(t, isSyntax(err), "%v", err)
		})
	}

	t.Run("parts and their headers are bounded", func(t *testing.T) {
		many := strings.Repeat(part(named("a"), "1"), body.MaxFields)
		_, err := body.ReadMultipart([]byte(many+"--B--"), multipartB)
		require.NoError(t, err)
		_, err = body.ReadMultipart([]byte(many+part(named("a"), "1")+"--B--"), multipartB)
		require.ErrorIs(t, err, body.ErrLimit)
		_, err = body.ReadMultipart([]byte(part(named("a")+"\r\nX: "+strings.Repeat("x", 5000), "1")+"--B--"), multipartB)
		require.ErrorIs(t, err, body.ErrLimit)
		_, err = body.ReadMultipart([]byte(part(named(strings.Repeat("n", body.MaxFieldName+1)), "1")+"--B--"), multipartB)
		require.ErrorIs(t, err, body.ErrLimit)
	})
}
