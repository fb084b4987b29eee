package body_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
)

// wechat is a notice as WeChat Pay v2 lays it out.
const wechat = `<xml><appid><![CDATA[wx2421b1c4370ec43b]]></appid>
  <attach><![CDATA[支付测试 <b> &amp; ]]></attach>
  <total_fee>1</total_fee>
  <time_end><![CDATA[20140903131540]]></time_end>
  <empty></empty><none/>
</xml>
`

func TestXML(t *testing.T) {
	t.Run("WeChat v2: CDATA, text and space as they are", func(t *testing.T) {
		doc, err := body.ReadXML([]byte(wechat))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"xml": map[string]any{
			"appid": "wx2421b1c4370ec43b", "attach": "支付测试 <b> &amp; ", "total_fee": "1", "time_end": "20140903131540", "empty": "", "none": "",
		}}, doc)
	})

	t.Run("Braintree: attributes, lists and nil (V47)", func(t *testing.T) {
		form, err := body.ReadForm(vectors(t)["V47"].Body)
		require.NoError(t, err)
		payload, _ := form.Find("bt_payload")
		text, err := body.Base64Lines.Decode(payload)
		require.NoError(t, err)
		doc, err := body.ReadXML(text)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"notification": map[string]any{
			"kind": "check", "timestamp": "2017-04-26T07:12:24Z", "timestamp@type": "datetime",
			"subject": map[string]any{"check": "true", "check@type": "boolean"},
		}}, doc)

		doc, err = body.ReadXML([]byte(`<n a="1"><list type="array"><x type="integer">1</x><x type="y"><y>2</y></x></list><none type="array"/><date nil="true"></date></n>`))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"n@a": "1", "n": map[string]any{
			"list": []any{"1", map[string]any{"y": "2"}}, "list@type": "array", "none": []any{}, "none@type": "array", "date": nil, "date@nil": "true",
		}}, doc)
	})

	t.Run("names keep their prefix, references are resolved once", func(t *testing.T) {
		doc, err := body.ReadXML([]byte("<?xml version='1.0' encoding='UTF-8'?>\n<!-- sent by hand -->\n<s:e xmlns:s='u'><a>&lt;&amp;amp;&#233;&#x1F389;&quot;</a></s:e>"))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"s:e@xmlns:s": "u", "s:e": map[string]any{"a": `<&amp;é🎉"`}}, doc)
	})

	t.Run("case 41: a byte order mark is skipped", func(t *testing.T) {
		doc, err := body.ReadXML([]byte("\xEF\xBB\xBF<a>1</a>"))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"a": "1"}, doc)
	})
}

func TestXMLRefused(t *testing.T) {
	for name, data := range map[string]string{
		"case 77: an external entity":   `<!DOCTYPE xml [<!ENTITY x SYSTEM "file:///etc/passwd">]><xml><a>&x;</a></xml>`,
		"case 77: a billion laughs":     `<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><l>&b;</l>`,
		"case 77: an external DTD":      `<!DOCTYPE xml SYSTEM "http://127.0.0.1/x.dtd"><xml/>`,
		"case 77: a bad entity":         `<xml><a>&nbsp;</a></xml>`,
		"case 77: a fragment after":     `<xml><a>1</a></xml><a>2</a>`,
		"case 77: text after":           `<xml/>x`,
		"case 77: text before":          `x<xml/>`,
		"case 77: CDATA after":          `<xml/><![CDATA[x]]>`,
		"a processing instruction":      `<xml><?php echo 1 ?></xml>`,
		"a late declaration":            ` <?xml version="1.0"?><xml/>`,
		"XML 1.1":                       `<?xml version="1.1"?><xml/>`,
		"nothing":                       ``,
		"a declaration alone":           `<?xml version="1.0"?>`,
		"an open end":                   `<xml><a>1</a>`,
		"crossed elements":              `<xml><a><b></a></b></xml>`,
		"an end without a start":        `</xml>`,
		"an attribute without quotes":   `<a b=1/>`,
		"a reference without semicolon": `<a>&#65</a>`,
		"a NUL by number":               `<a>&#0;</a>`,
		"text between elements":         `<a><b>1</b>2</a>`,
		"text in a list":                `<a type="array">1</a>`,
		"a repeated child":              `<xml><total_fee>1</total_fee><total_fee>100</total_fee></xml>`,
		"a repeated attribute":          `<a><b c="1" c="2"/></a>`,
		"nil that is not empty":         `<a><b nil="true">1</b></a>`,
		"a comment within text":         `<a>10<!-- -->0</a>`,
		"JSON":                          `{"a":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := body.ReadXML([]byte(data))
			require.True(t, isSyntax(err), "%v, %v", doc, err)
		})
	}
	for name, data := range map[string]string{
		"half a surrogate pair":              `<a>&#xD83C;</a>`,
		"half a surrogate pair, decimal":     `<a>&#55356;</a>`,
		"half a surrogate pair in attribute": `<a b="&#xDFFF;"/>`,
		"invalid UTF-8":                      "<a>\xB2\xE2</a>",
		"NUL":                                "<a>\x00</a>",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := body.ReadXML([]byte(data))
			require.ErrorIs(t, err, body.ErrText)
		})
	}
	t.Run("a surrogate's number in CDATA is mere text", func(t *testing.T) {
		doc, err := body.ReadXML([]byte(`<a><![CDATA[&#xD83C;]]></a>`))
		require.NoError(t, err)
		require.Equal(t, "&#xD83C;", doc["a"])
	})
	t.Run("a repeated child is ambiguous", func(t *testing.T) {
		_, err := body.ReadXML([]byte(`<xml><total_fee>1</total_fee><total_fee>100</total_fee></xml>`))
		require.ErrorIs(t, err, body.ErrAmbiguous)
	})
}

func TestXMLCharset(t *testing.T) {
	t.Run("case 75: GBK that says so", func(t *testing.T) {
		doc, err := body.ReadXML([]byte("<?xml version=\"1.0\" encoding=\"GBK\"?><a b=\"\xB2\xE2\">\xB2\xE2\xCA\xD4</a>"))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"a": "测试", "a@b": "测"}, doc)
	})
	t.Run("case 75: UTF-8 that says GBK, and a charset nobody knows", func(t *testing.T) {
		for _, name := range []string{"GBK", "klingon"} {
			_, err := body.ReadXML([]byte(`<?xml version="1.0" encoding="` + name + `"?><a>中文</a>`))
			require.ErrorIs(t, err, body.ErrText)
			doc, err := body.ReadXML([]byte(`<?xml version="1.0" encoding="` + name + `"?><a>1</a>`))
			require.NoError(t, err)
			require.Equal(t, "1", doc["a"])
		}
	})
}

func TestXMLBounds(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(strings.Repeat("<a>", n) + strings.Repeat("</a>", n))
	}
	t.Run("case 85: depth", func(t *testing.T) {
		_, err := body.ReadXML(nested(body.MaxXMLDepth))
		require.NoError(t, err)
		_, err = body.ReadXML(nested(body.MaxXMLDepth + 1))
		require.ErrorIs(t, err, body.ErrLimit)
		_, err = body.ReadXML(nested(10_000))
		require.ErrorIs(t, err, body.ErrLimit)
	})
	t.Run("elements", func(t *testing.T) {
		list := func(n int) []byte {
			return []byte(`<l type="array">` + strings.Repeat("<a/>", n-1) + `</l>`)
		}
		_, err := body.ReadXML(list(body.MaxElements))
		require.NoError(t, err)
		_, err = body.ReadXML(list(body.MaxElements + 1))
		require.ErrorIs(t, err, body.ErrLimit)
	})
	t.Run("attributes", func(t *testing.T) {
		var b strings.Builder
		for i := range body.MaxAttributes + 1 {
			fmt.Fprintf(&b, " a%d='1'", i)
		}
		_, err := body.ReadXML([]byte("<e" + b.String() + "/>"))
		require.ErrorIs(t, err, body.ErrLimit)
	})
	t.Run("memory", func(t *testing.T) {
		// As much structure as a megabyte can hold.
		element := "<e a='' b='' c='' d='' e='' f='' g='' h='' i='' j='' k='' l='' m='' n=''></e>"
		data := []byte(`<l type="array"><m>` + strings.Repeat(element, 1) + `</m>` + strings.Repeat("<m>"+element+"</m>", 4990) + `</l>`)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		doc, err := body.ReadXML(data)
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		require.Less(t, held, int64(40*len(data)), "a document of %d bytes holds %d", len(data), held)
		runtime.KeepAlive(doc)
		t.Logf("%d bytes hold %d", len(data), held)
	})
}
