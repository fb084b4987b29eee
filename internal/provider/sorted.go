package provider

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// Providers that sign the sorted fields of a body which holds the signature.

// alipay signs with its own key (RSA2; the older RSA with SHA-1 is refused)
// what the fields mean, in the sender's charset. Whether a field without a value
// belongs to them differs between its libraries, so both readings are tried. An
// answer of seven letters counts, whatever the status. Read: opendocs.alipay.com,
// smartwalle/alipay, yansongda/pay.
var alipay = preset{
	name:     "alipay",
	signed:   "RSA with SHA-256, base64, form field sign, over the sorted fields",
	secret:   "none; public_keys has Alipay's public key (not yours), as it is shown",
	scheme:   alipayScheme,
	uses:     usesKeys,
	kind:     body.Kind{Format: body.FormatForm, CharsetField: "charset"},
	id:       []string{"body:notify_id"},
	typ:      []string{"body:notify_type", "body:trade_status"},
	account:  "body:app_id",
	occurred: "body:gmt_refund,gmt_payment,notify_time",
	zone:     "China",
	fingerprint: []string{
		"trade_no", "out_trade_no", "out_biz_no", "trade_status", "total_amount", "refund_fee", "gmt_refund", "app_id", "seller_id",
	},
	ack:         plainAck(http.StatusOK, "success"),
	reject:      plainAck(http.StatusUnauthorized, "fail"),
	again:       plainAck(http.StatusServiceUnavailable, "fail"),
	contentType: "application/x-www-form-urlencoded; charset=utf-8",
	sample: "notify_id={id}&notify_type=trade_status_sync&notify_time=2024-01-01+08%3A00%3A00&charset=utf-8&version=1.0&app_id=2021000000000000&" +
		"trade_no={number}&out_trade_no=order-{id}&trade_status=TRADE_SUCCESS&total_amount=0.01&gmt_payment=2024-01-01+08%3A00%3A00",
	amount: []string{"total_amount"},
}

type sortedForm struct{ keys keys }

func alipayScheme(src config.Source, f *faults) scheme {
	p := public{content: template{bodyPart}}.scheme(src, f).(*public)
	return &sortedForm{keys: p.keys}
}

func (s *sortedForm) limit() time.Duration { return 0 }

func (s *sortedForm) verify(_ context.Context, req Request, _ time.Time) error {
	form, err := body.ReadForm(req.Body)
	if err != nil {
		req.trace.judged("body", err)
		return refuse("the body is no form")
	}
	value, count := form.Find("sign")
	kind, kinds := form.Find("sign_type")
	if req.trace != nil {
		req.trace.place("field sign", string(value))
		req.trace.compared("field sign_type", string(kind), "RSA2")
	}
	if count != 1 || kinds != 1 || string(kind) != "RSA2" {
		return refuse("the form has no sign, or another sign_type than RSA2")
	}
	for _, field := range form {
		if ambiguous(string(field.Value), alipayFields) {
			return refuse("a field reads as several: it holds an ampersand and another field's name, which are not escaped before they are signed")
		}
	}
	for _, empty := range [...]bool{true, false} {
		text := alipayText(form, empty)
		req.trace.message(text)
		if s.keys.verify(text, string(value), req.trace) {
			return nil
		}
	}
	return refuse("the signature in the field sign is by none of the public keys")
}

// alipayText is the text that is signed, with or without the empty fields.
func alipayText(form body.Form, empty bool) []byte {
	var pairs []string
	for _, field := range form {
		name := string(field.Name)
		if name != "sign" && name != "sign_type" && (empty || len(field.Value) > 0) {
			pairs = append(pairs, name+"="+string(field.Value))
		}
	}
	slices.SortFunc(pairs, byName)
	return []byte(strings.Join(pairs, "&"))
}

// ambiguous reports whether a value holds what reads as another of the fields: they
// are joined by ampersands that are not escaped, so that a text in one field, which
// a buyer may have chosen, could be signed for others (case 50).
func ambiguous(value string, fields map[string]bool) bool {
	for {
		_, rest, more := strings.Cut(value, "&")
		if !more {
			return false
		}
		if name, _, ok := strings.Cut(rest, "="); ok && fields[name] {
			return true
		}
		value = rest
	}
}

// fieldNames makes a set of the words in list.
func fieldNames(list string) map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		names[name] = true
	}
	return names
}

// The fields that the providers document for their notices.
var (
	alipayFields = fieldNames(`notify_time notify_type notify_id app_id auth_app_id charset version trade_no out_trade_no out_biz_no
		buyer_id buyer_open_id buyer_logon_id seller_id seller_email trade_status total_amount receipt_amount invoice_amount
		buyer_pay_amount point_amount refund_fee send_back_fee subject body gmt_create gmt_payment gmt_refund gmt_close
		fund_bill_list vocher_detail_list voucher_detail_list passback_params`)
	wechatV2Fields = fieldNames(`return_code return_msg appid mch_id sub_appid sub_mch_id device_info nonce_str sign_type result_code
		err_code err_code_des openid sub_openid is_subscribe sub_is_subscribe trade_type bank_type total_fee settlement_total_fee
		fee_type cash_fee cash_fee_type coupon_fee coupon_count transaction_id out_trade_no attach time_end`)
)

// byName orders pairs by what stands before their first equals sign.
func byName(a, b string) int {
	a, _, _ = strings.Cut(a, "=")
	b, _, _ = strings.Cut(b, "=")
	return strings.Compare(a, b)
}

func (s *sortedForm) sign(req *Request, _ string, _ time.Time) error {
	form, err := body.ReadForm(req.Body)
	if err != nil {
		return err
	}
	signature, err := s.keys.sign(alipayText(form, true))
	if err != nil {
		return err
	}
	req.Body = []byte(string(req.Body) + "&sign_type=RSA2&sign=" + url.QueryEscape(signature))
	return nil
}

// wechatV2 hashes the sorted fields of an XML document and the key, with MD5 or
// HMAC-SHA256. A payment has no event id but its own. It wants exactly 200 and
// one line of XML. Read: pay.weixin.qq.com wiki 4_3, wechatpay-php.
var wechatV2 = preset{
	name:        "wechatpay-v2",
	signed:      "MD5 or HMAC-SHA256, hex, element sign, over the sorted elements and the key",
	secret:      "the merchant's APIv2 key",
	scheme:      wechatV2Scheme,
	kind:        body.Kind{Format: body.FormatXML},
	id:          []string{"body:xml.transaction_id", "body:xml.result_code?"},
	typ:         []string{"body:xml.result_code"},
	account:     "body:xml.mch_id",
	occurred:    "body:xml.time_end",
	zone:        "China",
	fingerprint: []string{"xml.transaction_id", "xml.out_trade_no", "xml.result_code", "xml.total_fee", "xml.fee_type", "xml.cash_fee", "xml.mch_id"},
	ack:         xmlAck(http.StatusOK, "<xml><return_code><![CDATA[SUCCESS]]></return_code><return_msg><![CDATA[OK]]></return_msg></xml>"),
	reject:      xmlAck(http.StatusUnauthorized, "<xml><return_code><![CDATA[FAIL]]></return_code><return_msg><![CDATA[signature does not verify]]></return_msg></xml>"),
	again:       xmlAck(http.StatusServiceUnavailable, "<xml><return_code><![CDATA[FAIL]]></return_code><return_msg><![CDATA[please send again]]></return_msg></xml>"),
	contentType: "text/xml",
	sample: "<xml><appid>wx1</appid><mch_id>10000100</mch_id><nonce_str>n</nonce_str><result_code>SUCCESS</result_code>" +
		"<return_code>SUCCESS</return_code><sign_type>HMAC-SHA256</sign_type><time_end>20240101080000</time_end>" +
		"<fee_type>CNY</fee_type><total_fee>1</total_fee><transaction_id>{id}</transaction_id><out_trade_no>order-{id}</out_trade_no></xml>",
	amount:   []string{"xml.total_fee"},
	currency: []string{"xml.fee_type"},
}

type sortedXML struct{ secrets []string }

func wechatV2Scheme(src config.Source, f *faults) scheme {
	if src.Tolerance != 0 {
		f.add(src.Pos, "tolerance", "no time is signed here, so there is nothing to tolerate; leave it out")
	}
	return &sortedXML{secrets: secrets(src, f)}
}

func (s *sortedXML) limit() time.Duration { return 0 }

func (s *sortedXML) verify(_ context.Context, req Request, _ time.Time) error {
	text, kind, signature, ok := wechatV2Text(req.Body)
	if !ok {
		req.trace.place("member sign", "")
		return refuse("the body is no XML with a signature, or one of its elements reads as several")
	}
	raw, err := hex.DecodeString(signature)
	if err != nil {
		return refuse("the signature is not in hex")
	}
	req.trace.place("member sign", signature)
	req.trace.keyed(text)
	for i, secret := range s.secrets {
		sum := wechatV2Sum(text, kind, secret, len(raw))
		found := sum != nil && hmac.Equal(sum, raw)
		req.trace.mac(i, "", hexText, sum, found)
		if found {
			return nil
		}
	}
	return refuse("no live secret has signed the fields")
}

// wechatV2Text returns the fields that are signed, by which hash, and the signature.
func wechatV2Text(data []byte) (text, kind, signature string, ok bool) {
	doc, err := body.ReadXML(data)
	if err != nil {
		return "", "", "", false
	}
	root, _ := jsondoc.Lookup(doc, "xml")
	fields, _ := root.(map[string]any)
	var pairs []string
	for name, value := range fields {
		field, isText := value.(string)
		if !isText {
			return "", "", "", false
		}
		if ambiguous(field, wechatV2Fields) {
			return "", "", "", false
		}
		if name != "sign" && field != "" {
			pairs = append(pairs, name+"="+field)
		}
	}
	slices.SortFunc(pairs, byName)
	kind, _ = fields["sign_type"].(string)
	signature, _ = fields["sign"].(string)
	return strings.Join(pairs, "&"), kind, signature, signature != ""
}

// wechatV2Sum returns the hash of kind; of a document that names none, the one
// of this size.
func wechatV2Sum(text, kind, secret string, size int) []byte {
	text += "&key=" + secret
	if kind == "" && size == sha256.Size {
		kind = "HMAC-SHA256"
	}
	switch kind {
	case "", "MD5":
		sum := md5.Sum([]byte(text))
		return sum[:]
	case "HMAC-SHA256":
		mac := hmac.New(sha256.New, []byte(secret))
		_, _ = mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	return nil
}

func (s *sortedXML) sign(req *Request, _ string, _ time.Time) error {
	const end = "</xml>"
	unsigned := strings.TrimSuffix(strings.TrimSpace(string(req.Body)), end)
	text, kind, _, _ := wechatV2Text([]byte(unsigned + "<sign>?</sign>" + end))
	sum := strings.ToUpper(hex.EncodeToString(wechatV2Sum(text, kind, s.secrets[0], md5.Size)))
	req.Body = []byte(unsigned + "<sign><![CDATA[" + sum + "]]></sign>" + end)
	return nil
}
