"""The models that are looked at: those of the catalogue whose graph breaks, in eval or training."""

from __future__ import annotations

_TEXT = (
    "BartModel MarianModel PegasusModel BlenderbotModel BlenderbotSmallModel BioGptModel"
    " MBartModel PLBartModel MvpModel PegasusXModel BigBirdPegasusModel M2M100Model OPTModel"
    " FSMTModel LEDModel LongformerModel NllbMoeModel FlaubertModel XLMModel IBertModel XGLMModel"
    " SwitchTransformersForConditionalGeneration Phi3LongRope OlmoHybridModel BambaModel JambaModel"
    " Qwen3_5TextModel RwkvModel ReformerModel GraniteMoeModel JetMoeModel FunnelModel MraModel"
    " BigBirdModel MixtralForCausalLM BartForSequenceClassification TapasModel"
)
_OTHER = (
    "WhisperModel DetrModel ConditionalDetrModel DeformableDetrModel TableTransformerModel"
    " GroundingDinoModel MaskFormerModel Speech2TextModel TimeSeriesTransformerModel"
    " MusicgenForCausalLM AriaTextModel ViltModel FastSpeech2ConformerModel VitsModel HubertModel"
    " Wav2Vec2Model WavLMModel UniSpeechModel SEWModel Data2VecAudioModel SpeechT5ForSpeechToText"
    " GotOcr2Model InternVLModel"
)
NAMES: tuple[str, ...] = (*_TEXT.split(), *_OTHER.split())
