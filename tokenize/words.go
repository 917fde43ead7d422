package tokenize

// The words of generated text, by the place they take in a sentence. Written for this package; a tokenizer keeps those that are one token
// for it.

// nouns take a plain s in the plural.
const nouns = `
acre account actor adult affair agent aim airport alarm album angle animal answer apple apron arch area arm arrow article artist aspect
attempt attic aunt author autumn award axle baker balance ball banana band bank banner bar bargain barn barrel base basement basin basket
battle bay beach beam bean bear beard bed bee bell belt bench berry bicycle bill bird birthday blade blanket block blossom board boat bolt
bone book boot border boss bottle bottom boulder bow bowl boy bracket brain brake branch brand breeze brick bride bridge broom brother bucket
budget bug builder building bulb bull bundle burden burner bus butcher button cabin cable cactus cafe cake calendar camel camera camp canal
candidate candle canoe canvas canyon captain car carbon card career cargo carpenter carpet carriage cart carrot case castle cat cathedral
cause cave ceiling cell cellar center century chain chair chalk challenge chamber champion chance channel chapel chapter character charm
chart check cheek cheese chef chemical chest chicken chief chimney chin choice circle circuit citizen claim class clay cleaner clerk client
cliff climate clock closet cloud clover clown clue coach coal coast coat coin collar colleague collection collector college colony color
column comet comment committee companion comparison compass computer concept concern concert conclusion condition conductor conference
connection contest context contract contrast cook corner cottage cotton counter course court cousin cover cow crane crater cream creature
creek crew cricket crop crowd crown cube culture cup cupboard current curtain curve cushion custom customer cycle dancer danger daughter dawn
deal decade decision deck deer defender degree delay demand dentist depth desert design designer desk detail detective device diagram dialogue
diamond dinner direction director discovery discussion district doctor document dog doll dollar dolphin donkey door doorway dot doubt dozen
dragon drain drawer drawing dream dress drill drink driver drop drum duck dust eagle ear earring earthquake edge editor effect effort egg
elbow election element elephant elevator emotion employee employer engine engineer entrance envelope episode error essay estate evening event
exam example exchange exhibit expert explorer express extension eye fabric fact factor failure farm farmer father feather feature fence
fern festival fever field figure file film filter finger fire fisherman flag flame flavor flight floor florist flower flute foot footstep
forecast forest fork form fortune fossil fountain fox fragment frame friend frog frost fruit function funnel future gain galaxy gallery game
gap garage garden gardener garment gate gear gem general generation generator gentleman geologist ghost giant gift girl glacier glove goal
goat gown grain grandfather grandmother grape graph grave guard guest guide guitar gull habit hall hammer hand handle harbor hat hawk
hazard head headline heart heater hedge helicopter helmet hen herb herd hero hill hint historian hobby hole holiday home honor hood hook
hope horizon horn horse hospital host hotel hour house human hunter hurdle hut idea image impact incident income index industry infant inn
insect inspector instance institute instructor instrument interest interval interview invention inventor investor invitation iron island issue
item jacket jail jar jewel job joint joke journal journalist journey judge juice jungle kettle key keyboard kid king kitchen kite kitten
knee knight knot label ladder lake lamp landlord landmark lane language lantern laptop laser lawn lawyer layer leader leaf league lecture leg
legend lemon lens lesson letter level lever lid light limit line lion liquid list listener liver lizard loan lobster lock locker locomotive log
logo loop lord lover machine magazine magnet maker mall manager manner manual map maple margin marker market marriage mask master mat match
material matter maze meadow meal measure measurement mechanic medal medicine meeting melody melon member memo mentor menu merchant message metal
meteor meter method migration mile mill miner minister minor mint minute miracle mirror mission mistake mixture model moment monitor monk monkey
monster month monument mood moon morning mosquito moth mother motion motor mountain mouse mouth movement movie muscle museum mushroom musician
mystery nail name napkin narrator nation neck necklace needle neighbor nephew nerve nest net network newspaper night node noise noon
northerner nose note notebook notice novel number nurse nut oak oar object observer ocean offer office officer onion opener opera operation
operator opinion option orange orchard orchestra order organ organization outcome oven owl owner ox oyster package page painter painting
pair palace palm pan panel panda paper parade parent park parrot part partner passage passenger passport patch path patient patrol pattern
pause peak pear pebble pen pencil pension pepper performer period permit person pet petal phase phone photo photograph phrase piano picture pie
piece pig pigeon pile pillow pilot pin pine pioneer pipe pirate pitch place plain plan plane planet plank plant plate platform player pleasure
plot plow plum pocket poem poet point pole policeman pond pony pool porch port portion portrait position pot potato potter pound powder prayer
preacher premise present president price priest prince principle printer prison prize problem procedure product professor profile profit program
project promise proof proposal prospect protein puddle pump pumpkin pupil puppet puppy purpose purse puzzle pyramid quarter queen quest question
rabbit race radar radio raft rail railroad rainbow ram ramp ranch range ranger rank rat rate raven ray reader reason rebel receipt recipe
record recorder referee reflection region regulator relation relative reporter republic request researcher reservoir resident resort resource
restaurant result retailer reward rhythm ribbon rice rider ridge rifle ring ripple river road robe robin robot rock rocket rod role roof room
root rope rose route row ruin rule ruler runner sail sailor salad salmon salon sample sandal sandwich satellite saucer saw scale scene scent
schedule scheme scholar school science scientist scooter score scout scream screen screw script sculptor sculpture sea seal season seat secret
section sector seed senator senior sensor sentence series servant server service session setting settler shadow shape shark sheep sheet shell
shelter shepherd shield shift ship shirt shoe shop shopper shoulder shovel show shower shrub sibling side signal signature silo singer sink
sister site skater skeleton sketch skill skirt skull sky slide slope smile snack snail snake soap sock sofa soldier solution son song sound soup
source space spark speaker specialist species spectator speech sphere spider spike spirit sponge spoon sport spot spring square squirrel stable
stack stadium staff stage stain stair stamp star statement station statue steak steam stem step stick stock stone stool store storm story
stove strait stranger strategy straw strawberry stream street string student studio study style subject substance suburb subway success suit
suitcase summer summit sun supervisor supper supplier support surface surgeon surprise survey survivor swan sweater swimmer switch sword symbol
symptom system table tablet tail tailor talent tank tap tape target task taxi teacher team tear technique telescope temple tenant tent term
terminal terrace test text texture theater theme theory thief thing thinker thread threat throat throne thumb ticket tiger timber title toast
toe tomato tomorrow tone tongue tool topic torch tour tourist towel tower town toy track tractor trade trader tradition trail trailer train trainer
tray treasure treat treaty tree trend trial triangle tribe trick trip troop trophy truck trumpet trunk truth tube tulip tunnel turbine turkey
turtle tutor type umbrella uncle uniform union unit universe valley value van vase vegetable vehicle vein velvet vendor venture verdict verse vessel
veteran victim victor view viewer villa village villager vine vineyard violin virtue vision visitor vitamin voice volcano volume volunteer voter
voyage wagon waiter wall wallet wanderer warehouse warrior waterfall wave way weapon weaver website weed week weekend well whale wheel whisper
whistle widow wind window wing winner winter wire wolf wood word worker workshop world worm wound wrap wreath wrist writer yard year yellow
youngster zebra zone
`

const verbs = `
accepted accompanied achieved acquired added addressed admired admitted adopted advised affected allowed altered analyzed announced answered
anticipated applied appreciated approached approved argued arranged asked assembled assessed assigned assisted attached attended attracted
avoided awarded baked balanced began believed blamed blessed blocked borrowed bought brought brushed built buried called captured carried carved
caught caused celebrated challenged changed charged chased checked chose claimed cleaned cleared climbed closed collected combined compared
completed composed concealed confirmed connected considered constructed consulted contacted contained continued controlled converted cooked
copied corrected counted covered crafted created crossed damaged decided declared decorated defended defined delayed delivered demanded
demonstrated denied described deserved designed desired destroyed detected determined developed discovered discussed displayed distributed
divided documented doubted drafted drew dropped drove earned edited embraced emerged employed enabled encountered encouraged ended enjoyed
entered escaped established estimated evaluated examined exceeded exchanged excited expanded expected explained explored exported expressed
extended faced favored feared featured fed felt filled filmed finished fixed folded followed forced forgot formed fought found founded
framed gained gathered gave generated grabbed granted greeted grew guarded guessed guided handled heard heated held helped hid highlighted hired
hosted hunted identified ignored illustrated imagined implemented imported impressed improved included increased indicated influenced informed
inherited inspected inspired installed introduced invented invited issued joined judged kept kicked kissed knew labeled launched led learned left
lent lifted liked linked listed located locked logged lost loved lowered made maintained managed marked mastered matched measured mentioned
met missed mixed modified monitored mounted moved named needed negotiated noted noticed observed obtained occupied offered opened operated
ordered organized owned packed painted passed performed permitted picked placed planned planted played pleased poured praised predicted preferred
prepared presented preserved pressed prevented printed processed produced promised promoted proposed protected proved provided published pulled
purchased pursued pushed questioned quoted raised ran reached read realized received recognized recommended recorded recovered reduced
referenced refused registered regretted rejected released remembered removed renewed rented repaired repeated replaced reported represented
requested required rescued resembled reserved resolved respected restored retained returned revealed reversed reviewed rewarded rode ruled sampled
satisfied saved saw scanned scheduled scored searched secured selected sent separated served settled shaped shared shifted shook showed signed
simplified sketched sold solved sorted sought spotted spread started stated stole stopped stored stressed struck studied submitted succeeded
suggested supplied supported surprised surrounded surveyed suspected taught tasted tested thanked threatened threw tied told took
touched traced tracked traded trained transferred transformed translated transported treated tried trusted turned understood updated used
valued verified viewed visited wanted warned washed watched welcomed witnessed won wore worked wrapped wrote
`

const adjectives = `
able abstract academic active actual additional adequate advanced aged alert alternative amazing ambitious ample ancient angry annual anxious
apparent appropriate artificial attractive automatic available average awake aware balanced bare basic beautiful better big bitter black blank blind
blue bold brave brief bright brilliant broad broken brown busy calm capable careful casual central certain cheap cheerful chief civil classic
classical clean clear clever close cold colorful comfortable common compact competitive complete complex concrete confident conscious conservative
considerable consistent constant contemporary convenient cool correct crazy creative critical crucial crude cultural curious current curved daily
damp dangerous dark dead deep defensive definite delicate delicious dense dependent desperate detailed different difficult digital diplomatic direct
distant distinct diverse domestic dominant double dramatic dry dual due dull dynamic eager early eastern easy economic effective efficient elaborate
elder electric electronic elegant eligible empty enormous entire equal essential eternal ethical even everyday evident evil exact excellent excess
exciting exclusive existing exotic expensive experimental explicit external extra extreme faint fair faithful familiar famous fancy fantastic fast
fatal favorite federal female fierce final financial fine firm first fixed flat flexible foreign formal former fortunate forward fragile free
frequent fresh friendly frozen full fun functional fundamental funny gentle genuine giant glad global golden good grand grateful gray great green
grey gross growing handsome handy happy hard harsh healthy heavy helpful hidden high historic historical hollow holy honest horizontal hostile hot
huge human humble hungry ideal identical immediate important impressive inclusive independent indirect industrial inevitable informal inner innocent
innovative intelligent intense interesting interior intermediate internal international intimate invisible joint junior keen key kind large last late
lazy leading lean legal legendary lesser liberal light limited linear liquid little lively living local logical lonely long loose lost loud lovely
low loyal lucky magic magnetic main major male manual marine massive mature maximum mechanical medical medium mental mere mild military minimal
minimum minor missing mixed mobile moderate modern modest moral multiple musical mutual mysterious narrow native natural neat necessary negative
neutral new nice noble noisy normal northern notable novel nuclear numerous obvious occasional odd official old only open opposite optical optimal
optional orange ordinary organic original outdoor outer overall pale parallel partial particular passive past patient peaceful perfect permanent
persistent personal physical plain pleasant polite political poor popular portable positive possible potential powerful practical precious precise
preliminary present previous primary prime primitive principal private probable productive professional profitable profound progressive prominent
promising proper proud public pure purple quick quiet radical random rapid rare raw ready real realistic reasonable recent red regional regular
related relative relevant reliable religious remarkable remote representative residential respective responsible rich rigid rising robust romantic
rough round royal rural sacred sad safe satisfied scientific seasonal secondary secret secure selective senior sensible sensitive separate serious
severe shallow sharp sheer shiny short shy sick significant silent silver similar simple single slight slim slow small smart smooth social soft
solar solid sophisticated southern spare spatial special specific spectacular spiritual stable standard static steady steep stiff straight strange
strategic strict strong structural stupid subsequent substantial subtle successful sudden sufficient suitable super superior sure surprising
suspicious sweet symbolic systematic tall technical temporary tender terrible thick thin thorough tight tiny tired top total tough traditional
transparent tremendous tropical true typical ugly ultimate unable uncertain unexpected uniform unique universal unknown unlikely unusual upper
upset urban urgent useful usual vague valid valuable variable varied various vast verbal vertical viable vibrant virtual visible visual vital vivid
voluntary vulnerable warm weak wealthy weekly weird western wet white whole wide widespread wild willing wise wonderful wooden worthy wrong yellow
young
`

const adverbs = `
again almost alone already altogether always anyway apart automatically away badly barely briefly calmly carefully certainly clearly closely
completely constantly correctly daily deeply definitely deliberately directly early easily effectively elsewhere entirely equally especially
eventually everywhere exactly extremely fairly finally formally forever fortunately forward freely frequently fully generally gently gradually
greatly happily heavily here honestly hopefully immediately indeed independently initially instead largely lately later likely literally loudly
mainly maybe mostly naturally nearly never normally notably now obviously occasionally officially often once openly originally otherwise partly
patiently perfectly perhaps permanently personally physically possibly precisely presumably previously primarily privately probably promptly
properly publicly purely quickly quietly randomly rapidly rarely readily really recently regularly relatively repeatedly roughly sadly safely
secretly seemingly seldom separately seriously sharply shortly significantly silently similarly simply simultaneously slightly slowly smoothly
softly somehow sometimes somewhat somewhere soon specifically steadily still strictly strongly successfully suddenly surely surprisingly swiftly
technically temporarily then thereby there together tomorrow tonight totally traditionally truly twice typically ultimately unexpectedly
unfortunately usually virtually visibly warmly widely wisely yesterday yet
`

// the determiners before one thing, and before several.
const (
	determiners       = `the this that each every another one our their its his her my your no any either neither`
	pluralDeterminers = `the these those many several few most all some both our their its his her my your two three four five six seven eight nine ten`
	prepositions      = `about above across after against along among around at before behind below beneath beside between beyond by despite during
for from in inside into near of off on onto opposite outside over past since through throughout toward under until upon with within without`
	conjunctions = `and but while because although so whereas yet when as if since until though or where`
)
