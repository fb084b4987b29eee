package operator

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/onceledger/onceledger/internal/config"
)

// hidden stands where a secret was, and hideFrom is how long one has to be: a
// shorter text is found by chance.
const (
	hidden   = "[secret]"
	hideFrom = 8
)

// secretsOf takes the secrets of a configuration, and the forms in which a request
// may repeat them, out of what is printed. Steps hold none by themselves; but a
// body may hold anything.
func secretsOf(cfg *config.Config) *strings.Replacer {
	var forms []string
	hide := func(secret string) {
		if len(secret) < hideFrom {
			return
		}
		raw := []byte(secret)
		forms = append(forms,
			secret, hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)), url.QueryEscape(secret),
			base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
			base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		)
	}
	for _, src := range cfg.Sources {
		for _, secret := range src.Secrets {
			text := secret.Reveal()
			hide(text)
			hide(strings.TrimSpace(text))
			if _, password, ok := strings.Cut(text, ":"); ok {
				hide(password)
			}
			if _, rest, ok := strings.Cut(text, "_"); ok && strings.HasPrefix(text, "wh") {
				hide(rest)
				if key, err := base64.StdEncoding.DecodeString(rest); err == nil {
					hide(string(key))
				}
			}
		}
		hide(src.VerifyToken.Reveal())
		if src.Fetch != nil {
			hide(src.Fetch.Token.Reveal())
		}
	}
	// The longest first: one secret may begin with another.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, form := range forms {
		pairs = append(pairs, form, hidden)
	}
	return strings.NewReplacer(pairs...)
}

func (s *Session) printVerified(v *Verified) error {
	if s.JSON {
		return s.object(v)
	}
	p := &page{session: s}
	p.line("%s (provider %s): %s %s, %s of body, SHA-256 %s", v.Source, v.Provider, v.Method, v.Path, count(v.Bytes, "byte"), v.SHA256)
	p.line("held to the clock of %s", when(v.At))
	for _, note := range v.Notes {
		p.line("note: %s", note)
	}
	p.line("")
	for i, step := range v.Steps {
		p.step(i+1, step)
	}
	if len(v.Steps) > 0 {
		p.line("")
	}
	p.verdict(v)
	for _, cause := range v.Causes {
		p.line("")
		p.line("why  %s", sentence(cause.What))
		p.line("do   %s", sentence(cause.Do))
	}
	if v.Verdict == refused && len(v.Steps) > 0 && len(v.Causes) == 0 {
		p.line("")
		p.line("The cause was not found: none of %s to body, headers, secrets, URL and clock makes the signature right.", count(v.Tried, "change"))
		for _, hint := range v.Hints {
			p.line("hint  %s", sentence(hint))
		}
	}
	if len(v.Events) > 0 {
		p.line("")
		p.events(v.Events)
	}
	return p.err
}

// page prints lines until one cannot be written.
type page struct {
	session *Session
	err     error
}

func (p *page) line(format string, args ...any) {
	if p.err != nil {
		return
	}
	if _, err := fmt.Fprintln(p.session.Out, printable(fmt.Sprintf(format, args...))); err != nil {
		p.err = fmt.Errorf("write result: %w", err)
	}
}

func (p *page) step(n int, s VerifiedStep) {
	head := s.What
	switch s.Verdict {
	case "right":
		head += ": right"
	case "wrong":
		head += ": WRONG"
	}
	p.line("%2d  %s", n, head)
	for value := range strings.Lines(s.Received) {
		p.line("      received  %s", strings.TrimSuffix(value, "\n"))
	}
	if s.Expected != "" {
		p.line("      expected  %s", s.Expected)
	}
	text := s.Text
	if s.Base64 != nil {
		text = string(s.Base64)
	}
	if text != "" || s.SHA256 != "" {
		p.line("      %s", strconv.Quote(text))
	}
	if s.Bytes > 0 {
		more := ""
		if len(text) < s.Bytes {
			more = ", of which the beginning is shown"
		}
		p.line("      %s, SHA-256 %s%s", count(s.Bytes, "byte"), s.SHA256, more)
	}
	if s.Note != "" {
		p.line("      %s", s.Note)
	}
}

func (p *page) verdict(v *Verified) {
	answer := fmt.Sprintf("%d %s", v.Status, http.StatusText(v.Status))
	if text := strings.TrimSpace(v.Answer); text != "" {
		answer += ": " + text
	}
	switch {
	case v.Verdict == unavailable:
		p.line("CANNOT BE JUDGED NOW, the receiver answers %s", answer)
		p.line("%s", v.Error)
	case v.Verdict == refused:
		p.line("REFUSED, the receiver answers %s", answer)
		p.line("%s", v.Error)
	case v.Handshake:
		p.line("HANDSHAKE, the receiver answers %s", answer)
	default:
		p.line("PASSES, the receiver answers %s", answer)
	}
}

func (p *page) events(events []VerifiedEvent) {
	t := newTable(p.session.Out, "EVENT", "TYPE", "ACCOUNT", "MODE", "TIME", "BYTES", "PARKED AS")
	for _, e := range events {
		id := e.ID
		if e.Fault != "" {
			id = "-" // a generated one, another each time
		}
		t.row(id, dash(e.Type), dash(e.Account), dash(e.Mode), when(e.Time), strconv.Itoa(e.Bytes), e.Fault)
	}
	if err := t.flush(); p.err == nil {
		p.err = err
	}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// sentence is text as one, with its end.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}
