package body_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// alipayText is what Alipay signs: the fields sorted, in their own bytes.
func alipayText(form body.Form) string {
	var pairs []string
	for _, field := range form {
		if name := string(field.Name); name != "sign" && name != "sign_type" && len(field.Value) > 0 {
			pairs = append(pairs, name+"="+string(field.Value))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func TestForm(t *testing.T) {
	all := vectors(t)

	t.Run("case 74: plus, space and percent are told apart, as Alipay signs them (V62)", func(t *testing.T) {
		v := all["V62"]
		form, err := body.ReadForm(v.Body)
		require.NoError(t, err)
		require.Equal(t, string(v.Signed), alipayText(form))

		block, _ := pem.Decode([]byte(v.PublicKey))
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		require.NoError(t, err)
		digest := sha256.Sum256([]byte(alipayText(form)))
		sign, count := form.Find("sign")
		require.Equal(t, 1, count)
		require.Equal(t, v.Expected, string(sign))
		require.NoError(t, rsa.VerifyPKCS1v15(key.(*rsa.PublicKey), crypto.SHA256, digest[:], decode64(t, string(sign))))

		doc, err := form.Object("utf-8", false)
		require.NoError(t, err)
		require.Equal(t, "yansongda+测试 - 1", doc["subject"])
	})

	t.Run("case 74: a trailing space stays", func(t *testing.T) {
		form, err := body.ReadForm([]byte("subject=two+&body=%20x%20"))
		require.NoError(t, err)
		require.Equal(t, "body= x &subject=two ", alipayText(form))
	})

	t.Run("case 76: unknown and empty fields are there", func(t *testing.T) {
		form, err := body.ReadForm([]byte("&a=&new%5Bfield%5D=1&flag&&=nameless&b=x=y;z"))
		require.NoError(t, err)
		doc, err := form.Object("", false)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"a": "", "new[field]": "1", "flag": "", "": "nameless", "b": "x=y;z"}, doc)
		require.Equal(t, "new%5Bfield%5D", string(form[1].RawName))
		require.Equal(t, "new[field]", string(form[1].Name))
	})

	t.Run("case 81: JSON within a form (V07)", func(t *testing.T) {
		kind := &body.Kind{Format: body.FormatForm, Inner: []body.Inner{{Path: []string{"payload"}}}}
		doc, err := body.View(kind, "application/x-www-form-urlencoded", all["V07"].Body, everything)
		require.NoError(t, err)
		require.Equal(t, true, lookup(t, doc, "payload", "yo"))
	})

	t.Run("a repeated name is ambiguous unless it may be repeated", func(t *testing.T) {
		form, err := body.ReadForm([]byte("Digits=1&%44igits=2&Digits=3&From=x"))
		require.NoError(t, err)
		first, count := form.Find("Digits")
		require.Equal(t, 3, count)
		require.Equal(t, "1", string(first))
		_, err = form.Object("", false)
		require.ErrorIs(t, err, body.ErrAmbiguous)
		doc, err := form.Object("", true)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"Digits": []any{"1", "2", "3"}, "From": "x"}, doc)
	})

	t.Run("escapes that readers take differently are refused", func(t *testing.T) {
		for _, data := range []string{"a=%zz", "a=%", "a=1%2", "%u0041=1", "a=%-1", "a=%1g"} {
			_, err := body.ReadForm([]byte(data))
			require.ErrorIs(t, err, body.ErrSyntax, data)
		}
	})

	t.Run("number and length of fields are bounded", func(t *testing.T) {
		_, err := body.ReadForm([]byte(strings.Repeat("a&", body.MaxFields)))
		require.NoError(t, err)
		_, err = body.ReadForm([]byte(strings.Repeat("a&", body.MaxFields+1)))
		require.ErrorIs(t, err, body.ErrLimit)
		_, err = body.ReadForm([]byte(strings.Repeat("n", body.MaxFieldName+1) + "=1"))
		require.ErrorIs(t, err, body.ErrLimit)
	})

	t.Run("case 41: a byte order mark is skipped", func(t *testing.T) {
		form, err := body.ReadForm([]byte("\xEF\xBB\xBFid=1"))
		require.NoError(t, err)
		require.Equal(t, "id", string(form[0].RawName))
	})
}

func TestFormCharset(t *testing.T) {
	// "测试商品 100元" in GBK, by another program.
	const gbk = "subject=%B2%E2%CA%D4%C9%CC%C6%B7%20%31%30%30%D4%AA&total_amount=0.01"
	view := func(contentType, data string) map[string]any {
		kind := &body.Kind{Format: body.FormatForm, CharsetField: "charset"}
		doc, err := body.View(kind, contentType, []byte(data), everything)
		require.NoError(t, err)
		return doc.(map[string]any)
	}
	const plain = "application/x-www-form-urlencoded"

	t.Run("case 75: GBK that says so becomes UTF-8, and is signed as it was", func(t *testing.T) {
		for _, name := range []string{"GBK", "gb2312", " GB18030 "} {
			require.Equal(t, "测试商品 100元", view(plain, gbk+"&charset="+strings.ReplaceAll(name, " ", "+"))["subject"], name)
			require.Equal(t, "测试商品 100元", view(plain+`; charset="`+name+`"`, gbk)["subject"], name)
		}
		form, err := body.ReadForm([]byte(gbk))
		require.NoError(t, err)
		require.Equal(t, "subject=\xB2\xE2\xCA\xD4\xC9\xCC\xC6\xB7 100\xD4\xAA&total_amount=0.01", alipayText(form))
	})

	t.Run("case 75: GBK that says UTF-8, or nothing, is no text, and its amount is", func(t *testing.T) {
		for _, says := range []string{"", "&charset=utf-8"} {
			doc := view(plain, gbk+says)
			require.Equal(t, jsondoc.Unstorable("\xB2\xE2\xCA\xD4\xC9\xCC\xC6\xB7 100\xD4\xAA"), doc["subject"])
			require.Equal(t, "0.01", doc["total_amount"])
		}
	})

	t.Run("case 75: UTF-8 that says GBK is no text", func(t *testing.T) {
		doc := view(plain, "charset=GBK&subject=%E4%B8%AD%E6%96%87&total_amount=1")
		require.Equal(t, jsondoc.Unstorable("中文"), doc["subject"])
		require.Equal(t, "1", doc["total_amount"])
	})

	t.Run("one value that is GBK alone settles it for all", func(t *testing.T) {
		// C4 A3 is 模 in GBK and ģ in UTF-8.
		require.Equal(t, jsondoc.Unstorable("\xC4\xA3"), view(plain, "charset=GBK&a=%C4%A3")["a"])
		require.Equal(t, "模", view(plain, "charset=GBK&a=%C4%A3&b=%B2%E2")["a"])
	})

	t.Run("the field that is signed outweighs the header that is not", func(t *testing.T) {
		require.Equal(t, "测试商品 100元", view(plain+"; charset=utf-8", gbk+"&charset=GBK")["subject"])
		require.Equal(t, "é", view(plain+"; charset=gbk", "charset=utf-8&subject=%C3%A9")["subject"])
	})

	t.Run("other charsets", func(t *testing.T) {
		require.Equal(t, "€5 café", view(plain, "charset=windows-1252&a=%805+caf%E9")["a"])
		require.Equal(t, "café", view(plain, "charset=ISO-8859-1&a=caf%E9")["a"])
		require.Equal(t, "€😀ß", view(plain, "charset=gb18030&a=%A2%E3%94%39%FC%36%81%30%89%38")["a"])
		require.Equal(t, jsondoc.Unstorable("caf\xE9"), view(plain, "charset=klingon&a=caf%E9")["a"])
		require.Equal(t, "ascii", view(plain, "charset=klingon&a=ascii")["a"])
	})

	t.Run("bytes that are no character are no text", func(t *testing.T) {
		require.Equal(t, jsondoc.Unstorable("\xB2"), view(plain, "charset=GBK&a=%B2")["a"])
		require.Equal(t, jsondoc.Unstorable("\x84\x31\xA4\x37"), view(plain, "charset=gb18030&a=%84%31%A4%37")["a"])
		require.Equal(t, jsondoc.Unstorable("a\x81"), view(plain, "charset=windows-1252&a=a%81")["a"])
	})

	t.Run("case 59: NUL is no text", func(t *testing.T) {
		require.Equal(t, jsondoc.Unstorable("a\x00b"), view(plain, "a=a%00b")["a"])
	})
}
