"""Advertising texts made up for measuring the presets, and the rules of `advertising_claims` that each one breaks."""

ADVERTISING: dict[str, frozenset[str]] = {
    "Our tea will cure your diabetes within three weeks.": frozenset(["disease-claims"]),
    "Say goodbye to arthritis: our cream heals arthritis for good!": frozenset(["disease-claims"]),
    "Clinically proven to reverse Alzheimer's.": frozenset(["disease-claims", "unproven-endorsement"]),
    "These shoes are light and comfortable for daily walks.": frozenset(),
    "Our vitamin tablets support a balanced diet.": frozenset(),
    "This product is not intended to diagnose, treat, cure or prevent any disease.": frozenset(),
    "We donate one dollar of every sale to cancer research.": frozenset(),
    "Guaranteed results in seven days or less.": frozenset(["guaranteed-results"]),
    "Weight loss guaranteed!": frozenset(["guaranteed-results"]),
    "30-day money-back guarantee on all orders.": frozenset(),
    "Delivery by Friday is guaranteed for orders before noon.": frozenset(),
    "The magic weight loss formula that doctors hate.": frozenset(["miracle-claims"]),
    "A miracle cream for your skin.": frozenset(["miracle-claims"]),
    "There is no miracle cure for hair loss, but good care helps.": frozenset(),
    "Our pills are 100% safe and have no side effects.": frozenset(["no-side-effects"]),
    "Completely harmless for children and pets.": frozenset(["no-side-effects"]),
    "Read the leaflet for possible side effects.": frozenset(),
    "Lose up to 8 kg in 10 days.": frozenset(["rapid-weight-loss"]),
    "Burn belly fat while you sleep!": frozenset(["rapid-weight-loss"]),
    "A healthy meal plan and exercise can help you reach your goal.": frozenset(),
    "Guaranteed 12% annual returns on your savings.": frozenset(["guaranteed-results", "guaranteed-returns"]),
    "A risk-free investment for everyone.": frozenset(["guaranteed-returns"]),
    "Returns are not guaranteed and you may lose capital.": frozenset(),
    "The world's best coffee machine.": frozenset(["unproven-superlatives"]),
    "The only phone in the world with this screen.": frozenset(["unproven-superlatives"]),
    "Rated the best in the world according to Consumer Reports 2025.": frozenset(),
    "Best wishes from our team to you.": frozenset(),
    "9 out of 10 dentists recommend our toothpaste.": frozenset(["unproven-endorsement"]),
    "Dermatologist tested? Doctor recommended!": frozenset(["unproven-endorsement"]),
    "Published in the Journal of Nutrition, the trial of 200 people was clinically tested.": frozenset(),
    "이 크림 하나로 아토피 완치!": frozenset(["disease-claims"]),
    "당뇨를 근본적으로 치료하는 차입니다.": frozenset(["disease-claims"]),
    "암 예방에 좋은 버섯": frozenset(["disease-claims"]),
    "본 제품은 질병의 예방 및 치료를 위한 의약품이 아닙니다.": frozenset(),
    "신선한 재료로 매일 아침 빵을 굽습니다.": frozenset(),
    "수익금 일부를 소아암 연구에 기부합니다.": frozenset(),
    "다이어트 효과 100% 보장": frozenset(["guaranteed-results"]),
    "누구나 합격! 무조건 합격하는 강의": frozenset(["guaranteed-results"]),
    "개인에 따라 효과를 보장하지 않습니다.": frozenset(),
    "7일 이내 환불 보장": frozenset(),
    "기적의 다이어트 약": frozenset(["miracle-claims"]),
    "만병통치약처럼 쓰이는 비밀의 약초": frozenset(["miracle-claims"]),
    "부작용이 전혀 없는 천연 성분": frozenset(["no-side-effects"]),
    "절대 안전한 시술": frozenset(["no-side-effects"]),
    "부작용이 있을 수 있으니 의사와 상담하세요.": frozenset(),
    "일주일 만에 5kg 감량 성공": frozenset(["rapid-weight-loss"]),
    "운동 없이 살이 빠지는 차": frozenset(["rapid-weight-loss"]),
    "원금이 보장되는 투자 상품, 고수익 보장": frozenset(["guaranteed-results", "guaranteed-returns"]),
    "손실 없는 투자, 매달 확정 수익": frozenset(["guaranteed-returns"]),
    "원금 손실이 발생할 수 있습니다.": frozenset(),
    "국내 최고의 서비스": frozenset(["unproven-superlatives"]),
    "세계 최초 무선 충전 밥솥": frozenset(["unproven-superlatives"]),
    "판매량 1위(2025년 12월 한국소비자원 조사 기준)": frozenset(),
    "의사들이 추천하는 유산균": frozenset(["unproven-endorsement"]),
    "임상적으로 입증된 효과": frozenset(["unproven-endorsement"]),
    "새로운 색상으로 출시된 운동화를 만나 보세요.": frozenset(),
    "주말 한정 20% 할인 행사를 진행합니다.": frozenset(),
    "Free shipping on orders of more than 50 dollars.": frozenset(),
    "Our app helps you learn Korean with short daily lessons.": frozenset(),
    "Kills 99.9% of bacteria on hard surfaces.": frozenset(),
    "Beat the heat with our new fans, now with a quieter motor.": frozenset(),
    "Prevents cavities when used with regular brushing.": frozenset(),
}

PRIVACY_NOTICES: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = (
    # The text, the rules that it meets and those that it violates. Of other rules, nothing is said here.
    (
        "We collect your name, e-mail address and payment details to provide our service and to send you invoices. "
        "We process this data because it is necessary for the performance of a contract. We keep it for three years "
        "after your last order. We share it with service providers who deliver your parcels. You have the right to "
        "access, correct and delete your data; write to our data protection officer at privacy@shop.example. You may "
        "lodge a complaint with a supervisory authority. All data is encrypted. We use cookies. Effective date: "
        "1 January 2026.",
        frozenset(
            [
                "controller-and-contact",
                "data-categories",
                "purposes",
                "legal-basis",
                "retention-period",
                "recipients",
                "rights",
                "complaint",
                "security-measures",
                "automatic-collection",
                "effective-date",
                "no-unlimited-retention",
                "no-unlimited-sharing",
            ]
        ),
        frozenset(),
    ),
    (
        "We collect your name and phone number. We keep your data forever. We may sell your personal information to "
        "anyone we like.",
        frozenset({"data-categories"}),
        frozenset(
            [
                "no-unlimited-retention",
                "no-unlimited-sharing",
                "legal-basis",
                "rights",
                "complaint",
                "security-measures",
                "effective-date",
                "automatic-collection",
            ]
        ),
    ),
    (
        "We will never sell your data to anyone and do not keep it indefinitely.",
        frozenset({"no-unlimited-retention", "no-unlimited-sharing"}),
        frozenset(),
    ),
    (
        "회사는 회원의 이름, 이메일, 전화번호를 수집합니다. 수집한 정보는 주문 처리와 배송을 위하여 "
        "이용합니다. 정보주체의 동의를 받아 "
        "처리하며, 회원 탈퇴 시까지 보유하고 지체 없이 파기합니다. 법령에 따른 경우를 제외하고 제3자에게 "
        "제공하지 않습니다. 이용자는 "
        "언제든지 열람, 정정, 삭제를 요구할 수 있습니다. 개인정보 보호책임자: 홍길동. 개인정보 침해 "
        "신고는 118번으로 하실 수 있습니다. "
        "비밀번호는 암호화하여 저장합니다. 쿠키를 사용합니다. 이 방침은 2026년 1월 1일부터 시행합니다.",
        frozenset(
            [
                "controller-and-contact",
                "data-categories",
                "purposes",
                "legal-basis",
                "retention-period",
                "recipients",
                "rights",
                "complaint",
                "security-measures",
                "automatic-collection",
                "effective-date",
                "no-unlimited-retention",
                "no-unlimited-sharing",
            ]
        ),
        frozenset(),
    ),
    (
        "회원 정보는 영구적으로 보관합니다. 회사는 이용자의 동의 없이 제휴사에 정보를 제공할 수 있습니다.",
        frozenset(),
        frozenset({"no-unlimited-retention", "no-unlimited-sharing", "rights", "complaint", "security-measures"}),
    ),
    (
        "탈퇴하시면 모든 정보를 영구 삭제하며, 동의 없이 정보를 제공하지 않습니다.",
        frozenset({"no-unlimited-retention"}),
        frozenset(),
    ),
)

CONTRACTS: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = (
    (
        'This agreement is made between Acme Inc. and Beta Ltd. (the "Client"). Acme shall provide hosting services. '
        "The client shall pay 500 EUR monthly within 14 days. This agreement has an initial term of two "
        "years. Either "
        "party may terminate it with 30 days' notice. Each party is liable for damages caused by gross negligence. "
        "Both keep trade secrets confidential. It is governed by the laws of Ireland.",
        frozenset(
            [
                "parties",
                "subject",
                "payment",
                "term",
                "termination",
                "liability",
                "confidentiality",
                "governing-law",
                "no-exclusion-of-all-liability",
                "no-one-sided-changes",
                "no-refusal-of-all-refunds",
                "no-silent-renewal",
            ]
        ),
        frozenset(),
    ),
    (
        "The company may change these terms without notice. All sales are final. The company shall not be liable for "
        "any loss whatsoever. The subscription automatically renews and cannot be cancelled.",
        frozenset(),
        frozenset(
            [
                "no-one-sided-changes",
                "no-refusal-of-all-refunds",
                "no-exclusion-of-all-liability",
                "no-silent-renewal",
                "governing-law",
                "confidentiality",
            ]
        ),
    ),
    (
        "The company may not change the price without notice, and refunds are paid within 14 days.",
        frozenset(),
        frozenset(),
    ),
    (
        "이 계약은 주식회사 가나(이하 '갑'이라 한다)와 주식회사 다라(이하 '을'이라 한다) 사이에 체결한다. "
        "을은 소프트웨어를 납품한다. 갑은 "
        "대금 1,000만 원을 30일 이내에 지급한다. 계약 기간은 체결일로부터 1년으로 한다. 당사자는 30일 전 "
        "통지로 해지할 수 있다. 손해를 "
        "입힌 당사자는 손해배상 책임을 진다. 양 당사자는 비밀을 유지한다. 분쟁은 서울중앙지방법원을 관할 "
        "법원으로 한다.",
        frozenset(
            [
                "parties",
                "subject",
                "payment",
                "term",
                "termination",
                "liability",
                "governing-law",
                "no-exclusion-of-all-liability",
                "no-one-sided-changes",
                "no-refusal-of-all-refunds",
                "no-silent-renewal",
            ]
        ),
        frozenset(),
    ),
    (
        "회사는 사전 통지 없이 약관을 변경할 수 있습니다. 어떠한 경우에도 환불되지 않습니다. 회사는 "
        "서비스로 인한 손해에 대하여 일체의 "
        "책임을 지지 않습니다. 이용 계약은 통지 없이 자동 연장됩니다.",
        frozenset(),
        frozenset(
            [
                "no-one-sided-changes",
                "no-refusal-of-all-refunds",
                "no-exclusion-of-all-liability",
                "no-silent-renewal",
                "governing-law",
                "confidentiality",
            ]
        ),
    ),
    (
        "회사는 고의 또는 중대한 과실이 없는 한 책임을 지지 않습니다. 7일 이내에는 환불됩니다.",
        frozenset({"no-exclusion-of-all-liability", "no-refusal-of-all-refunds"}),
        frozenset(),
    ),
)
