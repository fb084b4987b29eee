package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// textShown is how much of a signed text a step keeps, in bytes.
const textShown = 2 << 10

// trace records what verifying a request looks at. The nil trace records
// nothing and costs a comparison, so that schemes are written once: what
// explains a verdict is what decides it.
type trace struct {
	Explanation
	masked []string // of each secret, what may be shown
}

func (t *trace) add(s Step) { t.Steps = append(t.Steps, s) }

// header records how often a header is there; hidden: its value is a secret.
func (t *trace) header(name string, values []string, hidden bool) {
	if t == nil {
		return
	}
	t.Read = append(t.Read, name)
	s := Step{What: "header " + name, Verdict: Wrong}
	switch {
	case len(values) == 0:
		s.Note = "it is missing"
		t.Missing = append(t.Missing, name)
	case len(values) > 1:
		s.Note = fmt.Sprintf("it is given %d times, which has more than one reading", len(values))
		t.Repeated = append(t.Repeated, name)
		if !hidden {
			s.Received = strings.Join(values, "\n")
		}
	case hidden:
		s.Verdict, s.Note = Seen, hiddenNote(values[0])
	default:
		s.Verdict, s.Received = Seen, values[0]
	}
	t.add(s)
}

func hiddenNote(value string) string {
	return fmt.Sprintf("%d characters, which are not shown: they are the secret, or as good as it", len(value))
}

// place records a value from elsewhere than a header; without one it is missing.
func (t *trace) place(what, value string) {
	switch {
	case t == nil:
	case value == "":
		t.add(Step{What: what, Verdict: Wrong, Note: "it is missing, or not given once"})
	default:
		t.add(Step{What: what, Received: value})
	}
}

// concealed records a value that is a secret, or ought to be one.
func (t *trace) concealed(kind, name, value string) {
	switch {
	case t == nil:
	case value == "":
		t.place(kind+" "+name, "")
	default:
		t.add(Step{What: kind + " " + name, Note: hiddenNote(value)})
	}
}

// member is compared for a value at a path of the body.
func (t *trace) member(path []string, received, expected string) {
	if t != nil {
		t.compared("member "+strings.Join(path, "."), received, expected)
	}
}

// compared records two values that have to be equal, neither of them secret.
func (t *trace) compared(what, received, expected string) {
	if t != nil {
		t.add(Step{What: what, Verdict: verdict(received == expected), Received: received, Expected: expected})
	}
}

// judged records how something that has no value to show turned out.
func (t *trace) judged(what string, err error) {
	switch {
	case t == nil:
	case err != nil:
		t.add(Step{What: what, Verdict: Wrong, Note: err.Error()})
	default:
		t.add(Step{What: what, Verdict: Right})
	}
}

// when records the signed time and its distance from the clock.
func (t *trace) when(at, now time.Time, tolerance time.Duration, ok bool) {
	if t == nil {
		return
	}
	t.Signed = at
	note := apart(at, now)
	if tolerance == 0 {
		note += "; no limit is set"
	} else {
		note += fmt.Sprintf("; %s are allowed", tolerance)
	}
	t.add(Step{What: "signed time", Verdict: verdict(ok), Received: at.UTC().Format("2006-01-02 15:04:05Z"), Note: note})
}

// apart says how far a time is from the clock, by whole seconds.
func apart(at, now time.Time) string {
	switch age := time.Duration(now.Unix()-at.Unix()) * time.Second; {
	case age > 0:
		return age.String() + " before the clock"
	case age < 0:
		return (-age).String() + " after the clock"
	}
	return "the same second as the clock"
}

// noTime records a signed time that cannot be read.
func (t *trace) noTime(stamp string) {
	if t != nil {
		t.add(Step{What: "signed time", Verdict: Wrong, Received: stamp, Note: "it is not in unix seconds"})
	}
}

// text records the text that is signed, with {secret} where the secret stands.
func (t *trace) text(content template, text *signed) {
	if t == nil {
		return
	}
	t.message(content.message(text))
	if content.has(secretPart) {
		last := &t.Steps[len(t.Steps)-1]
		last.Note = "the secret stands where {secret} is"
		last.Text.Bytes, last.Text.SHA256 = 0, "" // of a text that is not the signed one
	}
}

// message records a signed text as it is.
func (t *trace) message(text []byte) {
	if t == nil {
		return
	}
	sum := sha256.Sum256(text)
	t.add(Step{What: "signed text", Text: &Text{
		Start: string(text[:min(len(text), textShown)]), Bytes: len(text), SHA256: hex.EncodeToString(sum[:]),
	}})
}

// keyed records the text to which the secret is appended before it is hashed.
func (t *trace) keyed(text string) {
	if t == nil {
		return
	}
	t.text(template{bodyPart, "&key=", secretPart}, &signed{body: []byte(text)})
}

// parts records that no part of a header can be a signature of m's.
func (t *trace) parts(m *mac, value string) {
	if t == nil || m.prefix == "" {
		return
	}
	for part, more := "", true; more; {
		part, value, more = m.cut(value)
		if strings.HasPrefix(part, m.prefix) || m.also != "" && strings.HasPrefix(part, m.also) {
			return
		}
	}
	t.add(Step{What: "header " + m.header, Verdict: Wrong, Note: "no part of it begins with " + strconv.Quote(m.prefix)})
}

// times records that a header does not have one time.
func (t *trace) times(name, prefix string, found int) {
	if t != nil {
		t.add(Step{What: "header " + name, Verdict: Wrong, Note: fmt.Sprintf("%d of its parts begin with %q, not one", found, prefix)})
	}
}

// mac records the signature that a secret makes.
func (t *trace) mac(secret int, prefix string, e encoding, sum []byte, found bool) {
	if t != nil {
		t.add(Step{What: t.secret(secret), Verdict: verdict(found), Expected: prefix + e.encode(sum)})
	}
}

// token records whether a fixed text is the one that was given.
func (t *trace) token(secret int, found bool) {
	if t != nil {
		t.add(Step{What: t.secret(secret), Verdict: verdict(found)})
	}
}

func (t *trace) secret(i int) string {
	return fmt.Sprintf("secrets[%d] (%s)", i, t.masked[i])
}

// pair records what a pair of Braintree's makes of a payload.
func (t *trace) pair(secret int, p *braintreePair, payload []byte, found bool) {
	if t != nil {
		t.add(Step{What: t.secret(secret), Verdict: verdict(found), Expected: p.sum(payload)})
	}
}

// claims records what a bearer token says of itself.
func (t *trace) claims(text, audience, email string) {
	if t == nil {
		return
	}
	token, err := body.ParseToken(text)
	if err != nil {
		return
	}
	doc, err := jsondoc.Scan(token.Unverified(), everything)
	if err != nil {
		return
	}
	issued, _ := jsondoc.Lookup(doc, "iat")
	if seconds, ok := issued.(int64); ok {
		t.Signed = time.Unix(seconds, 0)
	}
	for _, claim := range [...][2]string{{"aud", audience}, {"email", email}} {
		value, _ := jsondoc.Lookup(doc, claim[0])
		t.compared("claim "+claim[0]+" of the token", scalar(value), claim[1])
	}
}

// key records whether a public key has made a signature.
func (t *trace) key(k *keys, i int, found bool) {
	if t == nil {
		return
	}
	name := "the fetched key"
	if i < len(k.names) {
		name = k.names[i]
	}
	t.add(Step{What: name + " (" + describeKey(k.publics[i]) + ")", Verdict: verdict(found)})
}

// describeKey names a public key so that it can be compared with another.
func describeKey(public crypto.PublicKey) string {
	kind := fmt.Sprintf("%T", public)
	switch key := public.(type) {
	case *rsa.PublicKey:
		kind = fmt.Sprintf("RSA of %d bits", key.N.BitLen())
	case *ecdsa.PublicKey:
		kind = "ECDSA on " + key.Curve.Params().Name
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return kind
	}
	sum := sha256.Sum256(der)
	return kind + ", SHA-256 " + hex.EncodeToString(sum[:8]) + "…"
}

// prefixes are the beginnings of secrets that everybody knows.
var prefixes = [...]string{macSecret, publicKey, privateKey}

// mask says of a secret what may be shown: its public prefix and its length.
func mask(secret string) string {
	if strings.HasPrefix(secret, "-----BEGIN") {
		return "a PEM block"
	}
	for _, prefix := range prefixes {
		if strings.HasPrefix(secret, prefix) {
			return fmt.Sprintf("%s…, %d characters", prefix, len(secret))
		}
	}
	return fmt.Sprintf("%d characters", len(secret))
}

func verdict(ok bool) Verdict {
	if ok {
		return Right
	}
	return Wrong
}
